import type { TextCall } from '../../language/call.ts'
import { type NameRules, ToolNames } from '../tools.ts'

/** The names that Google takes for functions (`FunctionDeclaration.name`). */
const RULES: NameRules = { forbidden: /[^A-Za-z0-9_.-]/g, badStart: /^[^A-Za-z_]/, longest: 64 }

/** The names of the call's tools, there and back. */
export const namesOf = (call: TextCall): ToolNames => new ToolNames(call, RULES)
