import { GatewayError } from '../base/errors.ts'
import type { Run } from '../engine/run.ts'
import type { TextCall } from '../language/call.ts'
import type { Block } from '../language/message.ts'
import type { Kind, Work } from '../language/work.ts'
import { FILE, getFacts } from '../translation/tokenizers/prompt.ts'
import { filterAddedContent } from './filters.ts'
import type { Enrichment, Plugin, PluginWorld } from './plugin.ts'
import { resolvePluginOptions } from './plugin-defaults.ts'

/**
 * Has plugins fetch and read what the call needs, before filters see it: those that it names, that
 * its workspace has by default, and that are for what it has. Returns synchronously if there is
 * nothing to do. Throws 400 for what cannot be read.
 */
export function preparePlugins(world: PluginWorld, run: Run): void | Promise<void> {
  addDefaults(world, run)
  if (mayImply(world, run.call)) implyPlugins(world, run)
  if (needsPreparing(world, run)) return prepareInTurn(world, run)
}

function addDefaults(world: PluginWorld, run: Run): void {
  const plugins = resolvePluginOptions(world, run)
  if (plugins && plugins !== run.call.plugins) run.call = { ...run.call, plugins }
}

/** Whether a call has anything that a plugin may be meant by which it does not name. */
function mayImply({ catalog }: PluginWorld, call: Work[Kind]['call']): boolean {
  for (const slug of call.models) if (slug.includes(':') || !catalog.models.has(slug)) return true
  if (call.kind !== 'text') return false
  const { features } = getFacts(call.messages)
  return call.params.web_search_options !== undefined || (features & FILE) !== 0
}

function implyPlugins(world: PluginWorld, run: Run): void {
  const { plugins } = run.call
  for (const plugin of listImplied(world.plugins)) {
    if (plugins?.[plugin.id] !== undefined) continue
    const options = plugin.imply?.(world, run.call)
    if (options !== undefined)
      run.call = { ...run.call, plugins: { ...run.call.plugins, [plugin.id]: options } }
  }
}

/** Lists the plugins that some calls have unasked. */
function listImplied(plugins: Plugin[]): Plugin[] {
  let found = implied.get(plugins)
  found ??= plugins.filter(({ prepare, imply }) => prepare && imply)
  implied.set(plugins, found)
  return found
}

const implied = new WeakMap<Plugin[], Plugin[]>()

const needsPreparing = ({ plugins }: PluginWorld, { call }: Run): boolean =>
  call.plugins !== undefined &&
  plugins.some(({ id, prepare }) => prepare && call.plugins?.[id] != null)

async function prepareInTurn(world: PluginWorld, run: Run): Promise<void> {
  for (const { id, prepare } of world.plugins) {
    const options = run.call.plugins?.[id]
    if (prepare && options != null) run.call = await prepare(world, run, options)
  }
}

/**
 * Has plugins look at the call as filters leave it: what one of them objects to is blocked, as by a
 * filter. Never throws.
 */
export function reviewRun(world: PluginWorld, run: Run): void | Promise<void> {
  const { plugins } = run.call
  const isAsked = plugins && world.plugins.some(({ id, review }) => review && plugins[id] != null)
  if (isAsked && !run.blocked && !run.isDry) return reviewInTurn(world, run)
}

async function reviewInTurn(world: PluginWorld, run: Run): Promise<void> {
  try {
    for (const { id, review } of world.plugins) {
      const options = run.call.plugins?.[id]
      if (review && options != null) run.blocked ??= await review(world, run, options)
    }
  } catch (thrown) {
    run.blocked = GatewayError.from(thrown)
  }
}

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
