package kube_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/kube"
)

func TestConditionOf(t *testing.T) {
	object := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"conditions": []any{
		map[string]any{"type": "Active", "status": "Unknown"},
		map[string]any{"type": "Ready", "status": "False", "reason": "RevisionFailed", "message": "no such image"},
		map[string]any{"type": "Established", "status": "True", "reason": "InitialNamesAccepted"},
	}}}}
	for name, test := range map[string]struct {
		status, said string
		holds        bool
	}{
		"Ready":       {"False", "RevisionFailed: no such image", false},
		"Established": {"True", "InitialNamesAccepted", true},
		"Active":      {"Unknown", "", false},
		"Other":       {},
	} {
		got := kube.ConditionOf(object, name)
		if got.Status != test.status || got.Said() != test.said || got.True() != test.holds {
			t.Errorf("%s: %+v, which says %q, holds %t", name, got, got.Said(), got.True())
		}
	}
}
