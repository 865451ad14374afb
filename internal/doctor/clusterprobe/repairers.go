package clusterprobe

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"plimsoll.dev/plimsoll/internal/doctor"
)

// healthCheckAPI is a kind of object that has conditions by which nodes are repaired.
type healthCheckAPI struct {
	kind, resource, group string
	versions              []string // known ones, the newest first
}

var healthCheckAPIs = []healthCheckAPI{
	{"MachineHealthCheck", "machinehealthchecks", "cluster.x-k8s.io", []string{"v1beta2", "v1beta1"}},
	{"MachineHealthCheck", "machinehealthchecks", "machine.openshift.io", []string{"v1beta1"}},
	{"NodeHealthCheck", "nodehealthchecks", "remediation.medik8s.io", []string{"v1alpha1"}},
}

// healthCheck has the used fields of a health check, in each known version.
type healthCheck struct {
	Metadata struct{ Namespace, Name string }
	Spec     struct {
		UnhealthyConditions []unhealthyCondition
		Checks              struct{ UnhealthyNodeConditions []unhealthyCondition } // v1beta2 of Cluster API
	}
}

// unhealthyCondition is a condition of a Node by which it is repaired.
type unhealthyCondition struct {
	Type, Status      string
	Timeout, Duration string // of MachineHealthChecks and NodeHealthChecks
	TimeoutSeconds    int64  // v1beta2 of Cluster API
}

const (
	// maxAnswerBytes bounds one answer: the groups of the API, or a page of health checks.
	maxAnswerBytes = 32 << 20
	// maxRepairs bounds the stored conditions.
	maxRepairs = 1000
)

// repairs reads the conditions with status True by which nodes are repaired. A cluster without
// health checks has none. What was read before an error is part of an unknown fact.
func (o *Options) repairs(ctx context.Context) doctor.Fact[[]doctor.Repair] {
	client, is := o.Client.Core().(*rest.RESTClient)
	if !is || client == nil {
		return doctor.Unknown[[]doctor.Repair]("the client has no connection of its own")
	}
	// An account without rights to a kind gets the same answer whether it exists or not, but every
	// account may list the groups.
	var groups struct {
		Groups []struct {
			Name     string
			Versions []struct{ Version string }
		}
	}
	if err := fetch(ctx, client.Get().AbsPath("/apis"), &groups); err != nil {
		return doctor.Unknown[[]doctor.Repair](err.Error())
	}
	found, faults := []doctor.Repair{}, []error{}
	for _, a := range healthCheckAPIs {
		for _, g := range groups.Groups {
			if g.Name != a.group {
				continue
			}
			var served []string
			for _, v := range g.Versions {
				served = append(served, v.Version)
			}
			if err := a.list(ctx, client, served, &found); err != nil {
				faults = append(faults, err)
			}
		}
	}
	if err := errors.Join(faults...); err != nil {
		first, _, _ := strings.Cut(err.Error(), "\n")
		return doctor.Fact[[]doctor.Repair]{Value: found, Cause: first}
	}
	return doctor.Known(found)
}

// list adds the conditions of all health checks of a kind. The server has its group in some versions,
// and perhaps not the kind.
func (a *healthCheckAPI) list(ctx context.Context, client *rest.RESTClient, served []string, found *[]doctor.Repair) error {
	known := slices.IndexFunc(a.versions, func(v string) bool { return slices.Contains(served, v) })
	if known < 0 {
		return fmt.Errorf("%s %s: the server has it in other versions (%s) than %s", a.resource, a.group, strings.Join(served, ", "), strings.Join(a.versions, ", "))
	}
	for next := ""; ; {
		request := client.Get().AbsPath("/apis", a.group, a.versions[known], a.resource).Param("limit", strconv.Itoa(pageSize))
		if next != "" {
			request.Param("continue", next)
		}
		var page struct {
			Metadata struct{ Continue string }
			Items    []healthCheck
		}
		err := fetch(ctx, request, &page)
		if apierrors.IsNotFound(err) {
			return nil // the group is there for other kinds
		}
		if err != nil {
			return fmt.Errorf("list %s.%s: %w", a.resource, a.group, err)
		}
		for i := range page.Items {
			if *found, err = a.add(*found, &page.Items[i]); err != nil {
				return err
			}
		}
		if next = page.Metadata.Continue; next == "" {
			return nil
		}
	}
}

// add appends the conditions of one health check.
func (a *healthCheckAPI) add(found []doctor.Repair, c *healthCheck) ([]doctor.Repair, error) {
	name := strings.TrimPrefix(c.Metadata.Namespace+"/"+c.Metadata.Name, "/")
	for _, u := range slices.Concat(c.Spec.UnhealthyConditions, c.Spec.Checks.UnhealthyNodeConditions) {
		if u.Status != "True" {
			continue
		}
		after := time.Duration(u.TimeoutSeconds) * time.Second
		if text := cmp.Or(u.Timeout, u.Duration); text != "" {
			var err error
			if after, err = time.ParseDuration(text); err != nil {
				return found, fmt.Errorf("%s %s, condition %s: %w", a.kind, name, u.Type, err)
			}
		}
		if len(found) == maxRepairs {
			return found, fmt.Errorf("there are more than %d conditions of health checks", maxRepairs)
		}
		found = append(found, doctor.Repair{By: a.kind + " " + name, Condition: u.Type, After: after})
	}
	return found, nil
}

// fetch decodes an answer in JSON. Returns the error of the request, or one for an answer that is too
// long or no JSON.
func fetch(ctx context.Context, request *rest.Request, into any) error {
	body, err := request.SetHeader("Accept", "application/json").Stream(ctx)
	if err != nil {
		return err
	}
	defer body.Close()
	if err := json.NewDecoder(io.LimitReader(body, maxAnswerBytes)).Decode(into); err != nil {
		return fmt.Errorf("decode %s: %w", request.URL().Path, err)
	}
	return nil
}
