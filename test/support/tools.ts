import { Cancellation } from '../../src/base/cancellation.ts'
import type { Json } from '../../src/base/json.ts'
import type { Run } from '../../src/engine/run.ts'
import type { ServerTool, ToolInvocation } from '../../src/extensions/server-tool.ts'

/** Creates what tools need of a run: one call of a client. */
export const createToolRun = (fields: Partial<Run> = {}): Run =>
  ({
    ...{ isDry: false, cancellation: new Cancellation() },
    ...{ actor: { key_hash: null, workspace_id: '' }, ...fields },
  }) as unknown as Run

/** Builds one use of a tool, with the parameters of a body. */
export function buildUse<Options>(
  tool: ServerTool<Options>,
  parameters: Json,
  input: Json,
  fields: Partial<ToolInvocation<Options>> = {},
): ToolInvocation<Options> {
  return {
    options: tool.readOptions(parameters, 'tools.0.parameters'),
    run: createToolRun(),
    name: tool.name,
    input,
    uses: 0,
    callId: 'call_1',
    cancellation: new Cancellation(),
    ...fields,
  }
}
