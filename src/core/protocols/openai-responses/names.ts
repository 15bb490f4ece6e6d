import type { TextCall } from '../../language/call.ts'
import { fittedId, type NameRules, ToolNames } from '../tools.ts'

/** What OpenAI takes as a function's name. */
const NAMES: NameRules = { forbidden: /[^a-zA-Z0-9_-]/g, longest: 64 }

/** What it takes as a call's id. */
const IDS: NameRules = { forbidden: /[^\x21-\x7e]/g, longest: 64 }

/** The names of the call's tools, there and back. */
export const namesOf = (call: TextCall): ToolNames => new ToolNames(call, NAMES)

/** A call's id as OpenAI takes it. */
export const callId = (id: string): string => fittedId(id, IDS)
