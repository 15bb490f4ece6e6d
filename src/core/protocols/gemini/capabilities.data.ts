import type { Endpoint } from '../../catalog/models.ts'

/** What a model takes, where Google's models differ. Vendor rules move: this is data, and nothing else asks for a model's name. */
export interface Capabilities {
  /** Whether there is a place for instructions; else they open the conversation. */
  systemInstruction: boolean
  /** How deep it shall think: a level of these, or a number of tokens, or nothing that could be said. */
  thinking: Thinking
  /** Whether a form of the answer may be asked for together with functions (then only while the model is free to call them). */
  formBesideTools: boolean
  /** Whether a function's answer may hold pictures and files. */
  mediaInResults: boolean
  /** Whether a function call of the history has to have a signature. */
  signedCalls: boolean
  /** Whether it takes JSON Schema itself; else Google's own reduced form of it. */
  jsonSchema: boolean
  /** Whether the Gemini API takes penalties for it. Vertex does for all. */
  penalties: boolean
  /** Whether it can search the web. */
  search: boolean
}

/** `least` is the smallest number of tokens besides `off`, which turns thinking off, or down as far as it goes. */
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

/** What a model that no row knows takes: what the newest do, but schemas in the form that all of them read. */
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
 * The rows that match a model's name, laid over `NEWEST`; the first match rules. Sources: ai.google.dev/gemini-api/docs
 * (thinking, structured-output, function-calling, thought-signatures).
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

/** What the model of this endpoint takes. */
export const capabilitiesOf = ({ upstreamModel }: Endpoint): Capabilities => ({
  ...NEWEST,
  ...CAPABILITIES.find(([model]) => model.test(upstreamModel))?.[1],
})

/** Whether the endpoint is one of Vertex, which differs from the Gemini API in small things. */
export const isVertex = ({ provider }: Endpoint): boolean =>
  provider.base_url.endsWith('/publishers/google')
