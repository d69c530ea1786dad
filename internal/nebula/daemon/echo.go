package daemon

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
)

// echo pings the address once and returns nil when it answers in time.
func echo(ctx context.Context, address netip.Addr) error {
	network, protocol := "ip4:icmp", 1
	var request, reply icmp.Type = ipv4.ICMPTypeEcho, ipv4.ICMPTypeEchoReply
	if address.Is6() {
		network, protocol = "ip6:ipv6-icmp", 58
		request, reply = ipv6.ICMPTypeEchoRequest, ipv6.ICMPTypeEchoReply
	}
	connection, err := new(net.ListenConfig).ListenPacket(ctx, network, "")
	if err != nil {
		return fmt.Errorf("ping %s: %w", address, err)
	}
	defer connection.Close()
	if err := connection.SetDeadline(time.Now().Add(echoWithin)); err != nil {
		return fmt.Errorf("ping %s: %w", address, err)
	}
	// Raw sockets see the answers to everyone's pings; the data is ours.
	data := make([]byte, 16)
	rand.Read(data)
	message := icmp.Message{Type: request, Body: &icmp.Echo{ID: int(data[0])<<8 | int(data[1]), Seq: 1, Data: data}}
	packet, err := message.Marshal(nil)
	if err != nil {
		return fmt.Errorf("ping %s: %w", address, err)
	}
	if _, err := connection.WriteTo(packet, &net.IPAddr{IP: address.AsSlice()}); err != nil {
		return fmt.Errorf("ping %s: %w", address, err)
	}
	buffer := make([]byte, 1500)
	for {
		n, _, err := connection.ReadFrom(buffer)
		if err != nil {
			return fmt.Errorf("ping %s: %w", address, err)
		}
		answer, err := icmp.ParseMessage(protocol, buffer[:n])
		if err != nil || answer.Type != reply {
			continue
		}
		if body, ok := answer.Body.(*icmp.Echo); ok && slices.Equal(body.Data, data) {
			return nil
		}
	}
}
