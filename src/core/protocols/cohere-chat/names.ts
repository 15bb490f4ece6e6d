import type { TextCall } from '../../language/call.ts'
import { type NameRules, ToolNames } from '../tools.ts'

/** Letters, digits and `_`, no digit first (https://docs.cohere.com/v1/reference/chat, `tools.name`). */
const RULES: NameRules = { forbidden: /[^a-zA-Z0-9_]/g, badStart: /^[0-9]/, longest: 64 }

/** The names of the call's tools, there and back. */
export const namesOf = (call: TextCall): ToolNames => new ToolNames(call, RULES)
