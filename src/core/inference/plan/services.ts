import type { Endpoint } from '../../catalog/models.ts'
import { getDataPolicy } from '../../catalog/providers/facts.ts'
import { denied, type GatewayError } from '../../errors.ts'
import type { Guardrail } from '../../policy/guardrails/store.ts'
import { isInZdrGroup } from '../../policy/zdr.ts'
import type { Run } from '../run.ts'
import { findExcludingPreference } from './constraints.ts'

/** Somebody who is sent what a call says and does not serve it: a judge, a reader of documents. */
export interface Service {
  /** How messages name it. */
  name: string
  /** The slug of its provider. */
  provider: string
  /** The provider's own name for its model. */
  model: string
  /** What was agreed with its provider; its public policy where that is silent. */
  data_policy?: { training?: boolean; retention_days?: number }
}

/**
 * Checks that a service may be sent a call: guardrails and the caller's `provider` bound it as they
 * bound an endpoint, by its provider and by what it does with data. Throws 403 otherwise.
 */
export function requireService({ call, policy }: Pick<Run, 'call' | 'policy'>, service: Service) {
  const endpoint = toEndpoint(service)
  const word = findExcludingPreference(endpoint, call)
  if (word !== undefined) throw excluded(service, word)
  const rule = policy.rules.find(
    ({ field, excludes }) => !OF_MODELS.includes(field) && excludes(endpoint),
  )
  if (rule) throw excluded(service, rule.excludedBy)
  // A call to a model that may keep nothing is kept by nobody else on its way.
  const keeps = endpoint.data_policy.retention_days !== 0
  if (keeps && call.models.some(model => isInZdrGroup(policy.zdr, model)))
    throw excluded(service, 'data_policy:zdr')
}

/** Fields of guardrails that name models: a service has none that calls could ask for. */
const OF_MODELS: (keyof Guardrail)[] = ['allowed_models', 'ignored_models']

const excluded = ({ name, provider }: Service, word: string): GatewayError =>
  denied(`${name} may not be sent this call: its provider ${provider} is excluded by ${word}`).with(
    {
      metadata: { excluded_by: [word] },
    },
  )

// Its price is not known, so that rules of paid and of free models both hold.
function toEndpoint({ provider, model, data_policy }: Service): Endpoint {
  const known = getDataPolicy(provider)
  return {
    provider: { slug: provider },
    model: `${provider}/${model}`,
    prices: null,
    region: null,
    quantization: 'unknown',
    service_tier: null,
    data_policy: {
      training: data_policy?.training ?? known.training,
      retention_days: data_policy?.retention_days ?? known.retention_days,
    },
  } as Endpoint
}
