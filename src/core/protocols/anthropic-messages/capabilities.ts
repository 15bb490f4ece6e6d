import type { Endpoint } from '../../catalog/models.ts'
import { CAPABILITIES, type Capabilities, STRANGER } from './capabilities.data.ts'

/** What the model of this endpoint takes. */
export function capabilitiesOf({ upstreamModel }: Endpoint): Capabilities {
  const name = upstreamModel.toLowerCase().replaceAll('.', '-')
  return CAPABILITIES.find(([model]) => model.test(name))?.[1] ?? STRANGER
}

/** The most output tokens of one answer there: the catalogue's number, else the model's own. Undefined for a model that nobody knows. */
export function ceilingOf(endpoint: Endpoint): number | undefined {
  const capabilities = capabilitiesOf(endpoint)
  return endpoint.max_completion_tokens ?? (capabilities === STRANGER ? undefined : capabilities.maxOutput)
}

/** What is sent as `max_tokens`, which this API insists on: the caller's bound, else as much as the model gives. */
export const outputBound = (max_tokens: number | undefined, endpoint: Endpoint): number =>
  max_tokens ?? endpoint.max_completion_tokens ?? capabilitiesOf(endpoint).maxOutput
