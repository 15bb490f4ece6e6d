import type { Endpoint } from '../../catalog/models.ts'

/** What a model of Cohere's takes besides words. */
interface Capabilities {
  /** `thinking`: models that do not think refuse the word. */
  thinking: boolean
}

/** What a model that nobody knows yet takes. */
const NEWEST: Capabilities = { thinking: true }

const NOT_THINKING: Capabilities = { thinking: false }

/** By the provider's own name, the first that fits. */
const CAPABILITIES: [model: RegExp, capabilities: Capabilities][] = [
  [/^command-(r|light|nightly)/, NOT_THINKING],
  [/^command(-a-(03-2025|vision|translate).*)?$/, NOT_THINKING],
  [/^(c4ai-)?aya-/, NOT_THINKING],
]

/** What the model of this endpoint takes. */
export const capabilitiesOf = ({ upstreamModel }: Endpoint): Capabilities =>
  CAPABILITIES.find(([model]) => model.test(upstreamModel))?.[1] ?? NEWEST
