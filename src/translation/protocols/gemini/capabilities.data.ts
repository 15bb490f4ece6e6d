import type { Endpoint } from '../../../resources/models/catalog.ts'

/**
 * What a model supports where Google's models differ. Vendor rules change, so they are data. No
 * other code looks at a model's name.
 */
export interface Capabilities {
  /** Whether it accepts a system instruction. Otherwise instructions open the conversation. */
  supportsSystemInstruction: boolean
  /**
   * How the depth of thinking is controlled: by one of these levels, by a number of tokens, or not
   * at all.
   */
  thinking: ThinkingControl
  /**
   * Whether an answer format may be combined with functions (only while the model is free to call
   * them).
   */
  supportsFormatWithTools: boolean
  /** Whether a function response may contain images and files. */
  supportsMediaInResults: boolean
  /** Whether function calls in the history must have a signature. */
  requiresSignedCalls: boolean
  /** Whether it accepts plain JSON Schema. Otherwise it accepts only Google's reduced form. */
  supportsJsonSchema: boolean
  /** Whether the Gemini API accepts penalties for it. Vertex accepts them for all models. */
  supportsPenalties: boolean
  /** Whether it can search the web. */
  supportsSearch: boolean
}

/**
 * `off` is the number of tokens that turns thinking off, or down as far as possible. `least` and
 * `most` bound all other numbers.
 */
export type ThinkingControl =
  | { in: 'levels'; levels: string[] }
  | { in: 'tokens'; off: number; least: number; most: number }
  | { in: 'nothing' }

const thinkInLevels = (...names: string[]): ThinkingControl => ({ in: 'levels', levels: names })
const thinkInTokens = (off: number, least: number, most: number): ThinkingControl => ({
  in: 'tokens',
  off,
  least,
  most,
})

const NO_THINKING: ThinkingControl = { in: 'nothing' }

/**
 * What an unlisted model supports: the same as the newest models, but with schemas in the form that
 * all models accept.
 */
const NEWEST: Capabilities = {
  supportsSystemInstruction: true,
  thinking: thinkInLevels('low', 'medium', 'high'),
  supportsFormatWithTools: true,
  supportsMediaInResults: true,
  requiresSignedCalls: true,
  supportsJsonSchema: false,
  supportsPenalties: true,
  supportsSearch: true,
}

const OLDER: Partial<Capabilities> = {
  supportsFormatWithTools: false,
  supportsMediaInResults: false,
  requiresSignedCalls: false,
}

/**
 * The overrides of `NEWEST` by model name. The first match wins. Sources:
 * ai.google.dev/gemini-api/docs (thinking, structured-output, function-calling,
 * thought-signatures).
 */
const CAPABILITIES: [name: RegExp, capabilities: Partial<Capabilities>][] = [
  [
    /(^|\/)gemma-/,
    { ...OLDER, supportsSystemInstruction: false, thinking: NO_THINKING, supportsSearch: false },
  ],
  [
    /gemini-1[.-]|gemini-pro(-vision)?$/,
    { ...OLDER, thinking: NO_THINKING, supportsSearch: false },
  ],
  [/gemini-2\.0/, { ...OLDER, thinking: NO_THINKING }],
  [/gemini-2\.5.*(image|tts|audio)/, { ...OLDER, thinking: NO_THINKING, supportsPenalties: false }],
  [
    /gemini-2\.5-pro/,
    {
      ...OLDER,
      thinking: thinkInTokens(128, 128, 32_768),
      supportsJsonSchema: true,
      supportsPenalties: false,
    },
  ],
  [
    /gemini-2\.5-flash-lite/,
    {
      ...OLDER,
      thinking: thinkInTokens(0, 512, 24_576),
      supportsJsonSchema: true,
      supportsPenalties: false,
    },
  ],
  [
    /gemini-2\.5/,
    {
      ...OLDER,
      thinking: thinkInTokens(0, 1, 24_576),
      supportsJsonSchema: true,
      supportsPenalties: false,
    },
  ],
  [/gemini-2/, { ...OLDER, thinking: NO_THINKING }],
  [/gemini-robotics-er-1\.5/, { ...OLDER, thinking: thinkInTokens(0, 1, 24_576) }],
  [/gemini-\d.*(image|tts)|nano-banana/, { thinking: NO_THINKING }],
  [/gemini-3-pro/, { thinking: thinkInLevels('low', 'high'), supportsJsonSchema: true }],
  [
    /gemini-3-flash|gemini-3\.[1-6]-flash|gemini-3\.\d+-flash-lite/,
    { thinking: thinkInLevels('minimal', 'low', 'medium', 'high'), supportsJsonSchema: true },
  ],
  [
    /gemini-4-hydrogen/,
    { thinking: thinkInLevels('low', 'medium', 'high', 'xhigh'), supportsJsonSchema: true },
  ],
  [/gemini-[3-9]/, { supportsJsonSchema: true }],
]

/** Returns the capabilities of the endpoint's model. */
export const getCapabilities = ({ upstreamModel }: Endpoint): Capabilities => ({
  ...NEWEST,
  ...CAPABILITIES.find(([model]) => model.test(upstreamModel))?.[1],
})

/** Tells whether the endpoint is on Vertex, which differs from the Gemini API in details. */
export const isVertex = ({ provider }: Endpoint): boolean =>
  provider.base_url.endsWith('/publishers/google')
