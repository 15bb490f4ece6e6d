import { showCallBudgets } from '../../limits/call-budgets.ts'
import { getPolicy } from '../../limits/effective.ts'
import { describeKey } from '../../resources/keys.ts'
import { defineOperation } from '../../resources/operation.ts'
import { defineResource } from '../resource.ts'

/** Creates the route of the caller's own key, with the fields that it may see. */
export const createCurrentKeyRoutes = defineResource({ tag: 'API Keys', access: 'key' }, [
  defineOperation(
    'GET /key',
    'getCurrentKey',
    'Get the current API key',
    async (gateway, actor) => {
      const policy = getPolicy(gateway, actor)
      const { rates } = gateway.traffic.counters
      const rate_limits = policy.rates && rates.describe(policy.rates)
      const budgets = policy.budgets && (await showCallBudgets(gateway.ledger, policy.budgets))
      return describeKey(gateway, actor, { ...policy, rate_limits, budgets })
    },
  ),
])
