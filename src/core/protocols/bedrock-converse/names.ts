import type { TextCall } from '../../language/call.ts'
import { fittedId, type NameRules, ToolNames } from '../tools.ts'

/** Which names and ids Converse takes (API reference, ToolSpecification and ToolUseBlock). */
const RULES: NameRules = { forbidden: /[^a-zA-Z0-9_-]/g, longest: 64 }

/** The names of the call's tools, there and back. */
export const namesOf = (call: TextCall): ToolNames => new ToolNames(call, RULES)

/** A call's id as Converse takes it. */
export const callId = (id: string): string => fittedId(id, RULES)
