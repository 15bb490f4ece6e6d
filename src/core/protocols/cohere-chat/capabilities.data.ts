/** What a model of Cohere's takes besides words. */
export interface Capabilities {
  /** `thinking`: models that do not think refuse the word. */
  thinking: boolean
}

const NOT_THINKING: Capabilities = { thinking: false }

/** By the provider's own name, the first that fits. A model that nobody knows yet is like the newest. */
export const CAPABILITIES: [model: RegExp, capabilities: Capabilities][] = [
  [/^command-(r|light|nightly)/, NOT_THINKING],
  [/^command(-a-(03-2025|vision|translate).*)?$/, NOT_THINKING],
  [/^(c4ai-)?aya-/, NOT_THINKING],
  [/^(?:)/, { thinking: true }],
]
