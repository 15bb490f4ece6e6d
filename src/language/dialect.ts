/** The names of all dialects. The CLI reads them here to avoid loading `dialects/registry.ts`. */
export const DIALECTS = [
  'chat',
  'completions',
  'messages',
  'responses',
  'embeddings',
  'rerank',
  'images',
  'speech',
  'transcriptions',
  'videos',
] as const

/** Those of doors beside the base URL, whose paths name the model. */
export const DOOR_DIALECTS = ['gemini', 'converse', 'invoke'] as const

export type DialectName = (typeof DIALECTS)[number] | (typeof DOOR_DIALECTS)[number]

/**
 * The dialects in which clients request text, and the properties of each. Content that the gateway
 * has no type for is kept unchanged together with the name of its dialect: a block, a tool or a
 * part of type `other`, and the `extra` of a call.
 */
export const TEXT_DIALECTS = {
  /** Unknown fields are forwarded to any provider (specification E9). */
  chat: { forwardsUnknown: true, apiType: 'completions', showsPart: true },
  /**
   * Unknown fields mean something only to providers whose protocol speaks the same dialect. A whole
   * message cannot say that it broke off, so a part of one is never shown.
   */
  messages: { forwardsUnknown: false, apiType: 'completions', showsPart: false },
  responses: { forwardsUnknown: false, apiType: 'responses', showsPart: true },
  gemini: { forwardsUnknown: false, apiType: 'completions', showsPart: true },
} as const satisfies Record<
  string,
  { forwardsUnknown: boolean; apiType: string; showsPart: boolean }
>

export type TextDialect = keyof typeof TEXT_DIALECTS

/** The dialects in whose form a preset can be made. */
export const PRESET_DIALECTS = ['chat', 'messages', 'responses'] as const satisfies TextDialect[]
