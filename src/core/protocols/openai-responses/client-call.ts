import type { Endpoint } from '../../catalog/models.ts'
import { isObject, type Json, objects, text } from '../../kernel/json.ts'

/** A call that the client runs, of a tool that is not a function. */
export interface ClientCall {
  name: string
  input: string
  /** Whether the answer is said to end with it: OpenAI's own client says so of functions, custom tools, patches and computers. */
  ends: boolean
}

/**
 * An item by which the model calls a tool of OpenAI's own kinds that the client runs: the chat API has calls of functions only, so
 * it becomes one of a function with the tool's name, whose arguments are what the AI SDK hands to its tools of these kinds. Null
 * for what the provider runs itself.
 */
export function clientCallOf(item: Json, endpoint: Endpoint): ClientCall | null {
  switch (item.type) {
    case 'custom_tool_call':
      return customCall(item, endpoint)
    case 'local_shell_call':
      return call('local_shell', { action: localAction(item.action) })
    case 'shell_call':
      return isHosted(item) ? null : call('shell', { action: shellAction(item.action) })
    case 'apply_patch_call':
      return isCut(item) ? null : { ...call('apply_patch', { callId: item.call_id, operation: item.operation }), ends: true }
    case 'tool_search_call':
      return item.execution === 'client' ? call('tool_search', { arguments: item.arguments, call_id: item.call_id }) : null
    case 'computer_call':
      return text(item.call_id) === null ? null : { ...call('computer', computerInput(item)), ends: true }
    default:
      return null
  }
}

const call = (name: string, input: Json): ClientCall => ({ name, input: JSON.stringify(input), ends: false })

/** xAI's own tools, which it runs itself though it calls them custom: the known ones, for xAI behind another name. */
const RUN_BY_XAI = new Set([
  'web_search',
  'web_search_with_snippets',
  'browse_page',
  'x_user_search',
  'x_keyword_search',
  'x_semantic_search',
  'x_thread_fetch',
  'view_image',
  'view_x_video',
  'code_execution',
])

// A custom tool takes text, and arguments are JSON: the text as a JSON string.
function customCall({ name, input }: Json, { provider }: Endpoint): ClientCall | null {
  const called = text(name)
  if (!called || provider.slug === 'xai' || RUN_BY_XAI.has(called)) return null
  return { name: called, input: JSON.stringify(text(input) ?? ''), ends: true }
}

// A shell in one of the provider's containers is the provider's.
const isHosted = ({ environment }: Json) => isObject(environment) && environment.type !== 'local'

// Half a patch is another patch.
const isCut = ({ status }: Json) => status != null && status !== 'completed'

function localAction(given: unknown): Json {
  const { type, command, timeout_ms, user, working_directory, env } = isObject(given) ? given : {}
  return { type, command, timeoutMs: timeout_ms, user, workingDirectory: working_directory, env }
}

function shellAction(given: unknown): Json {
  const { commands, timeout_ms, max_output_length } = isObject(given) ? given : {}
  return { commands, timeoutMs: timeout_ms ?? undefined, maxOutputLength: max_output_length ?? undefined }
}

const computerInput = ({ action, actions, pending_safety_checks, status }: Json): Json => ({
  actions: objects(actions ?? [action]).map(computerAction),
  pendingSafetyChecks: objects(pending_safety_checks).map(told),
  status,
})

const computerAction = ({ scroll_x, scroll_y, ...action }: Json): Json =>
  told({ ...action, ...(action.type === 'scroll' ? { scrollX: scroll_x, scrollY: scroll_y } : {}) })

const told = (given: Json): Json => Object.fromEntries(Object.entries(given).filter(([, value]) => value != null))
