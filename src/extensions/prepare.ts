import { GatewayError } from '../base/errors.ts'
import type { Config } from '../config.ts'
import type { Run } from '../engine/run.ts'
import type { InferenceWorld } from '../engine/world.ts'
import type { Kind, Work } from '../language/work.ts'
import { FILE, getFacts, OTHER } from '../translation/tokenizers/prompt.ts'
import type { Plugin } from './plugin.ts'
import { resolvePluginOptions } from './plugin-defaults.ts'
import { resolveStoredFiles } from './stored-files.ts'
import { checkCallbackUrl } from './videos/callback.ts'

/**
 * Has plugins fetch and read what the call needs, before filters see it, and stored files put in
 * place of their ids before that. Where a job is to be told of is checked first. Returns synchronously if there is nothing to do, as for most calls.
 * Throws 400 for what cannot be read.
 */
export function prepareRun(world: InferenceWorld, run: Run): void | Promise<void> {
  const checking = run.call.kind === 'video' ? checkCallbackUrl(world, run.call) : undefined
  return checking ? checking.then(() => prepareFiles(world, run)) : prepareFiles(world, run)
}

function prepareFiles(world: InferenceWorld, run: Run): void | Promise<void> {
  const pending = mayNameFiles(run) ? resolveStoredFiles(world, run) : undefined
  return pending ? pending.then(() => preparePlugins(world, run)) : preparePlugins(world, run)
}

const mayNameFiles = ({ call }: Run): boolean =>
  call.kind === 'text' && (getFacts(call.messages).features & (FILE | OTHER)) !== 0

function preparePlugins(world: InferenceWorld, run: Run): void | Promise<void> {
  if (hasDefaults(world.config)) addDefaults(world, run)
  if (mayImply(world, run.call)) implyPlugins(world, run)
  if (needsPreparing(world, run)) return prepareInTurn(world, run)
}

function hasDefaults({ plugins: { defaults = [], workspaces } }: Config): boolean {
  for (const _ in workspaces) return true
  return defaults.length > 0
}

function addDefaults(world: InferenceWorld, run: Run): void {
  const plugins = resolvePluginOptions(world, run)
  if (plugins && plugins !== run.call.plugins) run.call = { ...run.call, plugins }
}

/** Whether a call has anything that a plugin may be meant by which it does not name. */
function mayImply({ catalog }: InferenceWorld, call: Work[Kind]['call']): boolean {
  for (const slug of call.models) if (slug.includes(':') || !catalog.models.has(slug)) return true
  if (call.kind !== 'text') return false
  const { features } = getFacts(call.messages)
  return call.params.web_search_options !== undefined || (features & FILE) !== 0
}

function implyPlugins(world: InferenceWorld, run: Run): void {
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

const needsPreparing = ({ plugins }: InferenceWorld, { call }: Run): boolean =>
  call.plugins !== undefined &&
  plugins.some(({ id, prepare }) => prepare && call.plugins?.[id] != null)

async function prepareInTurn(world: InferenceWorld, run: Run): Promise<void> {
  for (const { id, prepare } of world.plugins) {
    const options = run.call.plugins?.[id]
    if (prepare && options != null) run.call = await prepare(world, run, options)
  }
}

/**
 * Has plugins look at the call as filters leave it: what one of them objects to is blocked, as by a
 * filter. Never throws.
 */
export function reviewRun(world: InferenceWorld, run: Run): void | Promise<void> {
  const { plugins } = run.call
  const isAsked = plugins && world.plugins.some(({ id, review }) => review && plugins[id] != null)
  if (isAsked && !run.blocked && !run.isDry) return reviewInTurn(world, run)
}

async function reviewInTurn(world: InferenceWorld, run: Run): Promise<void> {
  try {
    for (const { id, review } of world.plugins) {
      const options = run.call.plugins?.[id]
      if (review && options != null) run.blocked ??= await review(world, run, options)
    }
  } catch (thrown) {
    run.blocked = GatewayError.from(thrown)
  }
}
