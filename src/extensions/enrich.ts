import { GatewayError } from '../base/errors.ts'
import type { Run } from '../engine/run.ts'
import type { TextCall } from '../language/call.ts'
import type { Block } from '../language/message.ts'
import { filterAddedContent } from './filters.ts'
import type { Enrichment, PluginWorld } from './plugin.ts'

/**
 * Has plugins ask others for what the call is to contain beside its own words: its words as filters
 * leave them are what they may repeat to others, and filters read what they bring. Returns
 * synchronously if none is asked for, as for most calls. Throws what stops the call.
 */
export function enrichRun(world: PluginWorld, run: Run): void | Promise<void> {
  const { plugins } = run.call
  const isAsked = plugins && world.plugins.some(({ id, enrich }) => enrich && plugins[id] != null)
  if (isAsked && !run.blocked) return enrichInTurn(world, run)
}

async function enrichInTurn(world: PluginWorld, run: Run): Promise<void> {
  for (const { id, enrich } of world.plugins) {
    const options = run.call.plugins?.[id]
    if (!enrich || options == null || run.call.kind !== 'text') continue
    const enrichment = await enrich(world, run, run.call, options)
    if (enrichment) await addEnrichment(run, run.call, enrichment)
  }
}

// A message of its own would be refused by templates whose roles must alternate.
async function addEnrichment(run: Run, call: TextCall, enrichment: Enrichment): Promise<void> {
  const blocks = await filterEnrichment(run, call, enrichment)
  const last = call.messages.findLastIndex(({ role }) => role === 'user')
  const messages = call.messages.map((message, i) =>
    i === last ? { ...message, blocks: [...message.blocks, ...blocks] } : message,
  )
  run.call = { ...call, messages } as typeof run.call
}

/** Returns the texts as filters leave them: the instruction is the caller's, the content is not. */
async function filterEnrichment(
  run: Run,
  call: TextCall,
  { instruction, content }: Enrichment,
): Promise<Block[]> {
  const added: TextCall['messages'] = [
    { role: 'user', blocks: [{ type: 'text', text: instruction }] },
    { role: 'tool', tool_call_id: '', blocks: [{ type: 'text', text: content }] },
  ]
  try {
    const next = { ...call, messages: [...call.messages, ...added] }
    const filtered = (await filterAddedContent(run, call, next)) as TextCall
    return filtered.messages.slice(call.messages.length).flatMap(({ blocks }) => blocks)
  } catch (thrown) {
    run.blocked = GatewayError.from(thrown)
    return []
  }
}
