import type { Endpoint } from '../../catalog/models.ts'

/**
 * What a model supports where Google's models differ. Vendor rules change, so they are data. No
 * other code looks at a model's name.
 */
export interface Capabilities {
  /** Whether it accepts a system instruction. Otherwise instructions open the conversation. */
  systemInstruction: boolean
  /**
   * How the depth of thinking is controlled: by one of these levels, by a number of tokens, or not
   * at all.
   */
  thinking: Thinking
  /**
   * Whether an answer format may be combined with functions (only while the model is free to call
   * them).
   */
  formBesideTools: boolean
  /** Whether a function response may contain images and files. */
  mediaInResults: boolean
  /** Whether function calls in the history must have a signature. */
  signedCalls: boolean
  /** Whether it accepts plain JSON Schema. Otherwise it accepts only Google's reduced form. */
  jsonSchema: boolean
  /** Whether the Gemini API accepts penalties for it. Vertex accepts them for all models. */
  penalties: boolean
  /** Whether it can search the web. */
  search: boolean
}

/**
 * `off` is the number of tokens that turns thinking off, or down as far as possible. `least` and
 * `most` bound all other numbers.
 */
export type Thinking =
  | { in: 'levels'; levels: string[] }
  | { in: 'tokens'; off: number; least: number; most: number }
  | { in: 'nothing' }

const levels = (...names: string[]): Thinking => ({ in: 'levels', levels: names })
const tokens = (off: number, least: number, most: number): Thinking => ({
  in: 'tokens',
  off,
  least,
  most,
})
const NO_THINKING: Thinking = { in: 'nothing' }

/**
 * What an unlisted model supports: the same as the newest models, but with schemas in the form that
 * all models accept.
 */
const NEWEST: Capabilities = {
  systemInstruction: true,
  thinking: levels('low', 'medium', 'high'),
  formBesideTools: true,
  mediaInResults: true,
  signedCalls: true,
  jsonSchema: false,
  penalties: true,
  search: true,
}

const OLDER: Partial<Capabilities> = {
  formBesideTools: false,
  mediaInResults: false,
  signedCalls: false,
}

/**
 * The overrides of `NEWEST` by model name. The first match wins. Sources:
 * ai.google.dev/gemini-api/docs (thinking, structured-output, function-calling,
 * thought-signatures).
 */
const CAPABILITIES: [name: RegExp, capabilities: Partial<Capabilities>][] = [
  [/(^|\/)gemma-/, { ...OLDER, systemInstruction: false, thinking: NO_THINKING, search: false }],
  [/gemini-1[.-]|gemini-pro(-vision)?$/, { ...OLDER, thinking: NO_THINKING, search: false }],
  [/gemini-2\.0/, { ...OLDER, thinking: NO_THINKING }],
  [/gemini-2\.5.*(image|tts|audio)/, { ...OLDER, thinking: NO_THINKING, penalties: false }],
  [
    /gemini-2\.5-pro/,
    { ...OLDER, thinking: tokens(128, 128, 32_768), jsonSchema: true, penalties: false },
  ],
  [
    /gemini-2\.5-flash-lite/,
    { ...OLDER, thinking: tokens(0, 512, 24_576), jsonSchema: true, penalties: false },
  ],
  [/gemini-2\.5/, { ...OLDER, thinking: tokens(0, 1, 24_576), jsonSchema: true, penalties: false }],
  [/gemini-2/, { ...OLDER, thinking: NO_THINKING }],
  [/gemini-robotics-er-1\.5/, { ...OLDER, thinking: tokens(0, 1, 24_576) }],
  [/gemini-\d.*(image|tts)|nano-banana/, { thinking: NO_THINKING }],
  [/gemini-3-pro/, { thinking: levels('low', 'high'), jsonSchema: true }],
  [
    /gemini-3-flash|gemini-3\.[1-6]-flash|gemini-3\.\d+-flash-lite/,
    { thinking: levels('minimal', 'low', 'medium', 'high'), jsonSchema: true },
  ],
  [/gemini-4-hydrogen/, { thinking: levels('low', 'medium', 'high', 'xhigh'), jsonSchema: true }],
  [/gemini-[3-9]/, { jsonSchema: true }],
]

/** Returns the capabilities of the endpoint's model. */
export const capabilitiesOf = ({ upstreamModel }: Endpoint): Capabilities => ({
  ...NEWEST,
  ...CAPABILITIES.find(([model]) => model.test(upstreamModel))?.[1],
})

/** Tells whether the endpoint is on Vertex, which differs from the Gemini API in details. */
export const isVertex = ({ provider }: Endpoint): boolean =>
  provider.base_url.endsWith('/publishers/google')
