/** What a model of Cohere's takes besides words. */
export interface Capabilities {
  /** `thinking`: models that do not think refuse the word. */
  thinking: boolean
}

/** What a model that nobody knows yet takes. */
export const NEWEST: Capabilities = { thinking: true }

const NOT_THINKING: Capabilities = { thinking: false }

/** By the provider's own name, the first that fits. */
export const CAPABILITIES: [model: RegExp, capabilities: Capabilities][] = [
  [/^command-(r|light|nightly)/, NOT_THINKING],
  [/^command(-a-(03-2025|vision|translate).*)?$/, NOT_THINKING],
  [/^(c4ai-)?aya-/, NOT_THINKING],
]
