package tessera

import (
	"net"
	"net/netip"
	"strings"

	"google.golang.org/grpc/resolver"
)

// Lists of addresses as gRPC's other languages spell them, which grpc-go does not know: "ipv4:10.0.0.7:7171,10.0.0.8" and
// "ipv6:[::1]:7171,[::2]". A port that is left out is 443, as there.
var addressLists = []resolver.Builder{addressList("ipv4"), addressList("ipv6")}

// addressList is a target's scheme.
type addressList string

func (scheme addressList) Scheme() string { return string(scheme) }

// Build tells the addresses at once. REQUIRES: checkTarget has found nothing wrong.
func (scheme addressList) Build(
	target resolver.Target, conn resolver.ClientConn, _ resolver.BuildOptions,
) (resolver.Resolver, error) {
	addresses, err := scheme.parse(target.Endpoint())
	if err != nil {
		return nil, err
	}
	var state resolver.State
	for _, address := range addresses {
		// The certificate bears the name of the server itself, not that of the list.
		one := resolver.Address{Addr: address.String(), ServerName: address.Addr().String()}
		state.Endpoints = append(state.Endpoints, resolver.Endpoint{Addresses: []resolver.Address{one}})
	}
	return nothingToResolve{}, conn.UpdateState(state)
}

func (scheme addressList) parse(list string) ([]netip.AddrPort, error) {
	var addresses []netip.AddrPort
	for text := range strings.SplitSeq(list, ",") {
		if _, _, err := net.SplitHostPort(text); err != nil {
			text = net.JoinHostPort(strings.Trim(text, "[]"), "443")
		}
		address, err := netip.ParseAddrPort(text)
		if err != nil || address.Addr().Is4() != (scheme == "ipv4") {
			return nil, invalid("%q is not an address and a port of %s", text, string(scheme))
		}
		addresses = append(addresses, address)
	}
	return addresses, nil
}

// checkTarget says what is wrong with a list of addresses; other targets are gRPC's to judge.
func checkTarget(target string) error {
	scheme, list, _ := strings.Cut(target, ":")
	if scheme != "ipv4" && scheme != "ipv6" {
		return nil
	}
	_, err := addressList(scheme).parse(list)
	return err
}

// nothingToResolve has told all addresses.
type nothingToResolve struct{}

func (nothingToResolve) ResolveNow(resolver.ResolveNowOptions) {}
func (nothingToResolve) Close()                                {}
