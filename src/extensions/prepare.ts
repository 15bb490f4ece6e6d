import { GatewayError } from '../base/errors.ts'
import type { Run } from '../engine/run.ts'
import type { Kind, Work } from '../language/work.ts'
import { FILE, getFacts } from '../translation/tokenizers/prompt.ts'
import type { Plugin, PluginWorld } from './plugin.ts'
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
