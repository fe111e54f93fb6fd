// The two tables of a tile plan, as text: on-chip memory by component, and traffic by operand.
#ifndef TESSERA_CLIENT_CPP_CLI_PLAN_TABLES_H_
#define TESSERA_CLIENT_CPP_CLI_PLAN_TABLES_H_

#include <string>

#include "tessera/v1/server.pb.h"

namespace tessera {

// `request` has every field set but `tile`. KB and MB are 1024 and 1024^2 bytes.
std::string FormatPlan(const v1::PlanTilesRequest& request, const v1::PlanTilesResponse& plan);

// "float32", "float16", "bfloat16", and back, DATA_TYPE_UNSPECIFIED for any other name; also "float8_e4m3", which no
// tensor of a call has.
std::string DataTypeName(v1::DataType dtype);
v1::DataType DataTypeNamed(const std::string& name);

}  // namespace tessera

#endif  // TESSERA_CLIENT_CPP_CLI_PLAN_TABLES_H_
