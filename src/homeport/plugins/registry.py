"""The one list of built-in policies."""

from homeport.core.policy import Policy
from homeport.plugins.policies.homeport import Homeport
from homeport.plugins.policies.least_requests import LeastRequests
from homeport.plugins.policies.round_robin import RoundRobin

POLICIES: dict[str, Policy] = {
    policy.name: policy for policy in (Homeport(), RoundRobin(), LeastRequests())
}
