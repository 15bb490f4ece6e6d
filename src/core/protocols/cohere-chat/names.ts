import type { NameRules } from '../tool-names.ts'

/** Letters, digits and `_`, no digit first (https://docs.cohere.com/v1/reference/chat, `tools.name`). */
export const NAME_RULES: NameRules = { forbidden: /[^a-zA-Z0-9_]/g, badStart: /^[0-9]/, longest: 64 }
