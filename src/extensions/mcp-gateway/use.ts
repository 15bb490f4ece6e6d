import { denied, GatewayError } from '../../base/errors.ts'
import { isObject, type Json } from '../../base/json.ts'
import { ITEMS_AT_ONCE, runInTurns, type Work } from '../../base/turns.ts'
import { admitRun, listRun, recheckRun } from '../../engine/admit.ts'
import { filterToolInput } from '../../engine/filtering.ts'
import { closeRun, startRun } from '../../engine/infer.ts'
import { hasDestinations, type Run } from '../../engine/run.ts'
import { startTranscript } from '../../engine/settle/transcript.ts'
import type { Origin, TextCall } from '../../language/call.ts'
import type { TextPart } from '../../language/part.ts'
import { hideForms, listSecretForms } from '../../network/clean-reason.ts'
import type { Actor } from '../../resources/actor.ts'
import { startBroadcast } from '../broadcast.ts'
import { filterRun } from '../filters.ts'
import { reserveUses } from '../server-tool/money.ts'
import { runHeldUse } from '../server-tool/opening-use.ts'
import { prepareUse, type ToolUse } from '../server-tool/use.ts'
import type { ServerTool, ToolWorld } from '../server-tool.ts'
import { type McpOptions, readMcpOptions } from '../tools/mcp/options.ts'
import { listSecrets, type McpServer } from '../tools/mcp/server.ts'
import { type McpSession, runSession } from '../tools/mcp/session.ts'
import { mcp } from '../tools/mcp.ts'
import { runLimited, toFailedResult } from '../tools/use-limit.ts'

/** Who asks, and how. */
export interface Asker {
  actor: Actor
  origin: Origin
  /** The id of the record. */
  id: string
  signal: AbortSignal
}

/** One use of a server: what is asked of it, and what that costs. */
export interface ServerUse {
  server: McpServer
  /** The tool, or the method that is none. */
  name: string
  input: Json
  isPriced: boolean
  /** Asks for it. Gets the arguments as filters leave them. */
  work(session: McpSession, input: Json): Promise<Json>
}

/** What came of a use: what the server answered, or why it did not. */
export type UseResult = { answer: Json } | { failure: string }

/**
 * Uses a server once, as a call of its own: admitted, held, charged and recorded, its arguments and
 * its answer filtered. Throws 401, 402, 403, 429 and 503 for what is refused; before anything is
 * sent, unless filters block the answer.
 */
export async function useServer(
  world: ToolWorld,
  asker: Asker,
  use: ServerUse,
): Promise<UseResult> {
  const run = startRun(world, asker.actor, 'text', buildCall(asker, use))
  const { counters } = world.traffic
  run.follow(asker.signal)
  try {
    await admitRun(world, run as unknown as Run)
    if (run.policy.contentShare) startTranscript(world, run as unknown as Run)
    await filterRun(world, run)
    if (run.blocked) throw run.blocked
    recheckRun(world, run as unknown as Run)
    listRun(world, run as unknown as Run)
  } catch (thrown) {
    run.release(counters)
    throw thrown
  }
  if (hasDestinations(world)) run.watcher = startBroadcast(world, run as unknown as Run)
  return recordUse(world, run as unknown as Run, use)
}

const buildCall = ({ id, origin }: Asker, { server }: ServerUse): TextCall => ({
  ...{ kind: 'text', dialect: 'chat', isToolCall: true, id, origin, stream: false },
  models: [`mcp/${server.label}`],
  ...{ messages: [], tools: [], params: {}, extra: {}, betas: [], routing: {} },
  ...{ user: null, session_id: null, trace: null, preset_id: null, echoUpstreamBody: false },
})

/** Runs the use and records it. What is refused before anything is sent leaves no record. */
async function recordUse(world: ToolWorld, run: Run, use: ServerUse): Promise<UseResult> {
  const { name, server, input } = use
  let result: UseResult | null = null
  const tool = createTool(use, answer => {
    result = answer
  })
  const options = readMcpOptions({ server_label: server.label }, 'server')
  const prepared = prepareUse(world, run, {
    call: { id: run.call.id, name, input: JSON.stringify(input) },
    offered: { tool, request: buildRequest(options) },
    ...{ turn: 0, uses: 0 },
  })
  try {
    await runHeldUse(world, run, prepared, await reserveUses(world, run, [prepared]))
    if (!result) throw denied(prepared.result?.text ?? 'The use was refused')
    result = await filterResult(run, result)
  } catch (thrown) {
    const error = GatewayError.from(thrown)
    if (run.openingUses.length === 0) {
      run.release(world.traffic.counters)
      throw error
    }
    await closeRun(world, run, error)
    throw error.with({ isRecorded: true })
  }
  keepContent(run, prepared, result)
  const failed = await closeRun(world, run, null)
  if (failed) throw failed
  return result
}

const buildRequest = (options: McpOptions) => ({
  ...{ name: 'mcp', type: 'mcp', options, identity: options.server_label, field: 'server' },
})

/** Creates the tool of one use, which keeps what the server answered as it is. */
function createTool(
  { server, isPriced, work }: ServerUse,
  keep: (result: UseResult) => void,
): ServerTool<McpOptions> & ServerTool {
  const { requestApproval: _, ...rest } = mcp
  const price = (isPriced ? server.price : null) ?? 0n
  const tool: ServerTool<McpOptions> = {
    ...rest,
    hasOwnTime: true,
    priceUse: () => price,
    async run(world, { cancellation, input }) {
      try {
        const answer = await runLimited(cancellation, server.timeoutMilliseconds, limit =>
          runSession(world, server, limit, session => work(session, input)),
        )
        keep({ answer: await hideSecretsInJson(answer, server) })
        return { text: '', isError: answer.isError === true, cost: price }
      } catch (thrown) {
        if (cancellation.reason) throw cancellation.reason
        const failed = toFailedResult(thrown)
        keep({ failure: failed.text })
        return failed
      }
    },
  }
  return tool as ServerTool<McpOptions> & ServerTool
}

/** Hides the operator's credentials in every text that a server has answered, and in every name. */
export async function hideSecretsInJson<Answer extends object>(
  answer: Answer,
  server: McpServer,
): Promise<Answer> {
  const forms = listSecretForms(listSecrets(server))
  return forms.length > 0 ? ((await runInTurns(hideInJson(answer, forms))) as Answer) : answer
}

function* hideInJson(value: unknown, forms: string[], count = { values: 0 }): Work<unknown> {
  count.values += 1
  if (count.values % ITEMS_AT_ONCE === 0) yield
  if (typeof value === 'string') return hideForms(value, forms)
  if (Array.isArray(value)) {
    const items: unknown[] = []
    for (const item of value) items.push(yield* hideInJson(item, forms, count))
    return items
  }
  if (!isObject(value)) return value
  const members: [string, unknown][] = []
  for (const [name, member] of Object.entries(value))
    members.push([hideForms(name, forms), yield* hideInJson(member, forms, count)])
  return Object.fromEntries(members)
}

async function filterResult({ filtering }: Run, result: UseResult): Promise<UseResult> {
  if (!filtering || 'failure' in result) return result
  return { answer: await filterToolInput(filtering, result.answer) }
}

/** Keeps what was asked and answered for those who may have it. */
function keepContent(run: Run, { call, invocation }: ToolUse, result: UseResult): void {
  if (!run.transcript && !run.watcher) return
  const asked = JSON.stringify({ tool: call.name, arguments: invocation?.input ?? {} })
  run.call = {
    ...(run.call as TextCall),
    messages: [{ role: 'user', blocks: [{ type: 'text', text: asked }] }],
  }
  const text = 'failure' in result ? result.failure : JSON.stringify(result.answer)
  const parts: TextPart[] = [{ type: 'text-delta', choice: 0, text }]
  run.transcript?.read(parts)
  run.watcher?.read(parts)
}
