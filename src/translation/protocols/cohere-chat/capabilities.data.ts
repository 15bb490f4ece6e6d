import type { Endpoint } from '../../../resources/models/catalog.ts'

/** What a Cohere model supports. */
interface Capabilities {
  /** Whether it accepts `thinking`. Models that do not think refuse it. */
  supportsThinking: boolean
}

/** What the newest models support, and every model that is not listed. */
const NEWEST: Capabilities = { supportsThinking: true }

const WITHOUT_THINKING: Capabilities = { supportsThinking: false }

/** Maps the provider's model name to capabilities. The first match wins. */
const CAPABILITIES: [model: RegExp, capabilities: Capabilities][] = [
  [/^command-(r|light|nightly)/, WITHOUT_THINKING],
  [/^command(-a-(03-2025|vision|translate).*)?$/, WITHOUT_THINKING],
  [/^(c4ai-)?aya-/, WITHOUT_THINKING],
]

/** Returns the capabilities of the endpoint's model. */
export const getCapabilities = ({ upstreamModel }: Endpoint): Capabilities =>
  CAPABILITIES.find(([model]) => model.test(upstreamModel))?.[1] ?? NEWEST
