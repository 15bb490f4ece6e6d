import { type Static, Type } from '@sinclair/typebox'
import type { Json } from '../../base/json.ts'
import { closed, oneOf, optional } from '../../base/schema-builders.ts'
import type { ServerTool, ToolInvocation, ToolResult } from '../server-tool.ts'

const Parameters = Type.Object({ engine: optional(oneOf('auto', 'native', 'openrouter')) }, closed)

/** Whether the provider has the tool itself. */
interface PatchOptions {
  isNative: boolean
}

/**
 * Lets a model change files of the client by V4A diffs (wire reference D.6). The client applies
 * them and sends `apply_patch_call_output` back, so that every call of it ends the answer. With
 * `engine: native` the provider's own tool is used.
 */
export const applyPatch: ServerTool<PatchOptions> = {
  name: 'apply_patch',
  dialects: ['responses'],
  schema: Parameters,
  readOptions: parameters => ({
    isNative: (parameters as Static<typeof Parameters>).engine === 'native',
  }),
  findObstacle: () => null,
  delegate: (_, call, { isNative }) =>
    isNative
      ? { ...call, tools: [...call.tools, { type: 'other', dialect: 'responses', value: NATIVE }] }
      : null,
  listFunctions: () => [
    {
      name: 'apply_patch',
      description:
        'Creates, changes or deletes one file. A diff is in the V4A format: lines that begin ' +
        'with a space, + or -, in sections that begin with @@. For a new file each line of the ' +
        'diff begins with +.',
      parameters: {
        type: 'object',
        properties: {
          type: { type: 'string', enum: ['create_file', 'update_file', 'delete_file'] },
          path: { type: 'string', description: 'The path of the file' },
          diff: { type: 'string', description: 'The diff; none to delete a file' },
        },
        required: ['type', 'path'],
        additionalProperties: false,
      },
    },
  ],
  describeUse: (_, invocation) => {
    const operation = readOperation(invocation.input)
    return operation ? toItem(invocation, operation) : {}
  },
  run: async (_, invocation) => handOver(invocation),
}

const NATIVE = { type: 'apply_patch' }

function handOver(invocation: ToolInvocation<PatchOptions>): ToolResult {
  const operation = readOperation(invocation.input)
  if (operation)
    return { text: '', isError: false, pauses: true, item: toItem(invocation, operation) }
  const text = 'Expected a type, a path and, unless a file is deleted, a diff.'
  return { text, isError: true }
}

const toItem = ({ callId }: ToolInvocation<PatchOptions>, operation: Json): Json => ({
  type: 'apply_patch_call',
  call_id: callId,
  operation,
})

/** Reads what the model wants; undefined if that is no operation. */
function readOperation({ type, path, diff }: Json): Json | undefined {
  const isDeletion = type === 'delete_file'
  if (!isDeletion && type !== 'create_file' && type !== 'update_file') return undefined
  if (typeof path !== 'string' || path === '') return undefined
  if (isDeletion) return { type, path }
  return typeof diff === 'string' ? { type, path, diff } : undefined
}
