package kube

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	yamlreader "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// Ref names one object of a cluster. Namespace is empty for kinds that have
// none, and means "default" for those that do.
type Ref struct {
	APIVersion, Kind, Namespace, Name string
}

// RefOf returns the name of an object.
func RefOf(object *unstructured.Unstructured) Ref {
	return Ref{APIVersion: object.GetAPIVersion(), Kind: object.GetKind(), Namespace: object.GetNamespace(), Name: object.GetName()}
}

// String returns the name as errors show it, for example
// "Deployment default/echo".
func (r Ref) String() string {
	if r.Namespace == "" {
		return r.Kind + " " + r.Name
	}
	return r.Kind + " " + r.Namespace + "/" + r.Name
}

func (r Ref) namespace() string {
	if r.Namespace == "" {
		return "default"
	}
	return r.Namespace
}

// Parse returns the objects of a YAML or JSON text of several documents.
// Lists are taken apart; empty documents are skipped.
func Parse(content []byte) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	documents := yamlreader.NewYAMLReader(bufio.NewReader(bytes.NewReader(content)))
	for number := 1; ; number++ {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read document %d: %w", number, err)
		}
		var fields map[string]any
		if err := yaml.Unmarshal(document, &fields); err != nil {
			return nil, fmt.Errorf("parse document %d: %w", number, err)
		}
		if len(fields) == 0 {
			continue
		}
		found, err := flatten(&unstructured.Unstructured{Object: fields})
		if err != nil {
			return nil, fmt.Errorf("parse document %d: %w", number, err)
		}
		objects = append(objects, found...)
	}
}

func flatten(object *unstructured.Unstructured) ([]*unstructured.Unstructured, error) {
	if object.GetAPIVersion() == "" || object.GetKind() == "" {
		return nil, errors.New("an object needs apiVersion and kind")
	}
	if !object.IsList() {
		return []*unstructured.Unstructured{object}, nil
	}
	list, err := object.ToList()
	if err != nil {
		return nil, err
	}
	var items []*unstructured.Unstructured
	for i := range list.Items {
		inner, err := flatten(&list.Items[i])
		if err != nil {
			return nil, err
		}
		items = append(items, inner...)
	}
	return items, nil
}
