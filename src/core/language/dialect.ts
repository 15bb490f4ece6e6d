/** The names of all dialects: what the terminal knows of `dialects/registry.ts` unopened. */
export const DIALECTS = ['chat', 'completions', 'messages', 'embeddings'] as const

export type DialectName = (typeof DIALECTS)[number]

/**
 * The dialects in which clients ask for text, and what is true of each. What a client says that the
 * gateway has no word for is kept as it came, with the name of its dialect: a block, a tool or a
 * part of type `other`, and the `extra` of a call.
 */
export const TEXT_DIALECTS = {
  /** Unknown words go to any provider that answers (specification E9). */
  chat: { forwardsUnknown: true },
  /** Unknown words mean something only to providers whose protocol speaks the same dialect. */
  messages: { forwardsUnknown: false },
  responses: { forwardsUnknown: false },
} as const satisfies Record<string, { forwardsUnknown: boolean }>

export type TextDialect = keyof typeof TEXT_DIALECTS
