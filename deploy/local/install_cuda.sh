#!/usr/bin/env bash
# The CUDA 13.0 compiler, runtime and headers as NVIDIA's wheels, for a machine without a toolkit.
#
#   deploy/local/install_cuda.sh PIP FOLDER      FOLDER is replaced; its bin/nvcc is what cmake/cuda.cmake looks for
set -euo pipefail
pip=$1
folder=$2

rm -rf "$folder"
"$pip" install -q --no-deps --target "$folder/site" 'nvidia-cuda-nvcc==13.0.*' 'nvidia-nvvm==13.0.*' \
  'nvidia-cuda-crt==13.0.*' 'nvidia-cuda-runtime==13.0.*' 'nvidia-cuda-cccl==13.0.*'
mv "$folder"/site/nvidia/cu13/* "$folder"
rm -r "$folder/site"
ln -s lib "$folder/lib64" # which nvcc links from and the wheels lack
