import { kinds } from '../../engine/kinds.ts'
import {
  BYOK_ONLY,
  INPUT_MODALITIES,
  SERVICE_TIER,
  UNKNOWN_PRICE,
  WRONG_ENDPOINT,
} from '../../engine/plan/constraints.ts'
import { type DroppedEndpoint, SENTENCES } from '../../engine/plan/refusal.ts'
import { isPayable } from '../../engine/reserve.ts'
import type { Kind } from '../../language/work.ts'
import type { Amounts, Bound } from '../../limits/ledger.ts'
import type { Endpoint } from '../../resources/models/catalog.ts'
import type { ExplainedDrop } from './explanation.ts'

/** Ours, not in the public list. */
const NOT_PICKED = 'allow_fallbacks'
const NOT_PAYABLE = 'payment_required'

/** Explains an endpoint that a constraint or a guardrail excludes. */
export function explainDrop(
  kind: Kind,
  { endpoint, excludedBy, rule }: DroppedEndpoint,
): ExplainedDrop {
  if (!rule) return buildDrop(endpoint, excludedBy, renderReason(kind, excludedBy))
  const guardrail = { id: rule.guardrail_id, field: rule.field }
  return {
    ...buildDrop(
      endpoint,
      excludedBy,
      `${rule.field} of guardrail ${rule.guardrail_id} excludes it`,
    ),
    guardrail,
  }
}

/** What a word of `excluded_by` means for one endpoint. */
const REASONS: Record<string, string> = {
  not_configured: 'its provider is not configured here',
  [BYOK_ONLY]: 'a provider key of the workspace excludes it',
  allowed_providers: 'provider.only, provider.ignore or provider.order leaves its provider out',
  'data_policy:zdr': 'provider.zdr is true, and it is not known to retain no data',
  'data_policy:training': 'provider.data_collection is deny, and it may train on what it is sent',
  distillable_text:
    'provider.enforce_distillable_text is true, and its author is not known to allow training on ' +
    'its texts',
  quantization: 'provider.quantizations does not name its own',
  [SERVICE_TIER]: 'service_tier asks for another, and provider.only and order do not name its own',
  max_price: 'provider.max_price is below its price',
  require_parameters:
    'provider.require_parameters is true, and it does not support all parameters of the call',
  reasoning: 'the model’s variant asks for reasoning, and it cannot be told to reason',
  web_search:
    'the call asks for a web search, and it does not search itself, or not as it is told to',
  context_length: 'the prompt and max_tokens are longer than its context',
  [UNKNOWN_PRICE]: 'its price is not known, and a limit of money is to hold',
  [NOT_PAYABLE]: 'a budget of its model cannot pay for it',
  [INPUT_MODALITIES]: 'the model does not accept everything in the prompt as input',
}

const renderReason = (kind: Kind, by: string): string =>
  by === WRONG_ENDPOINT
    ? `its provider cannot be asked for ${kinds[kind].outputName}`
    : (REASONS[by] ?? SENTENCES[by] ?? by)

/**
 * Explains endpoints that could serve but are left out, since another one comes first and fallbacks
 * are off.
 */
export const explainNotPicked = (candidates: Endpoint[], picked: Endpoint[]): ExplainedDrop[] =>
  candidates
    .filter(endpoint => !picked.includes(endpoint))
    .map(endpoint =>
      buildDrop(
        endpoint,
        NOT_PICKED,
        'provider.allow_fallbacks is false, and another one comes first',
      ),
    )

/** Explains the endpoints of a plan for which no money can be set aside. */
export const explainNotPayable = (
  endpoints: Endpoint[],
  amounts: Amounts,
  bounds: Bound[],
): ExplainedDrop[] =>
  endpoints
    .filter(endpoint => !isPayable(amounts, endpoint))
    .map(endpoint =>
      buildDrop(endpoint, NOT_PAYABLE, bounds.map(({ message }) => message).join(' ')),
    )

const buildDrop = (
  { provider, model, is_byok }: Endpoint,
  excluded_by: string,
  reason: string,
): ExplainedDrop => ({
  provider: provider.slug,
  model,
  is_byok,
  excluded_by,
  reason,
  guardrail: null,
})
