import type { Config, PluginDefaults } from '../config.ts'
import { GatewayError, invalid } from '../errors.ts'
import { describeIssue, findSchemaIssue } from '../kernel/schema.ts'
import type { CallBase } from '../language/call.ts'
import type { Plugin } from './plugin.ts'
import type { Run } from './run.ts'
import type { InferenceWorld } from './world.ts'

type Options = NonNullable<CallBase['plugins']>

/** The options of plugins that calls of a workspace have unasked. */
interface ReadDefaults {
  options: Options
  /** Those of them that a call cannot replace. */
  locked: Options
}

/** The defaults of a config: of all workspaces, and of those that have their own. */
interface AllDefaults {
  common: ReadDefaults | null
  byWorkspace: Map<string, ReadDefaults | null>
}

/**
 * Returns the options of the plugins of a run's call, with the defaults of its workspace: the call's
 * own entries take precedence, unless overrides are prevented. Undefined if there are none.
 */
export function resolvePluginOptions(world: InferenceWorld, run: Run): CallBase['plugins'] {
  const { common, byWorkspace } = getDefaults(world.config, world.plugins)
  const { plugins } = run.call
  if (!common && byWorkspace.size === 0) return plugins
  const slug = world.memory.workspaces.get(run.actor.workspace_id)?.slug ?? ''
  const defaults = byWorkspace.has(slug) ? byWorkspace.get(slug) : common
  return defaults ? { ...defaults.options, ...plugins, ...defaults.locked } : plugins
}

/** Checks the defaults of a config. Throws 400 naming the setting. */
export function checkPluginDefaults(config: Config, plugins: Plugin[]): void {
  getDefaults(config, plugins)
}

const defaultsByConfig = new WeakMap<Config, AllDefaults>()

function getDefaults(config: Config, plugins: Plugin[]): AllDefaults {
  const known = defaultsByConfig.get(config)
  if (known) return known
  const { workspaces, ...common } = config.plugins
  const read = {
    common: readDefaults(common, 'plugins', config, plugins),
    byWorkspace: new Map(
      Object.entries(workspaces).map(([slug, defaults]) => [
        slug,
        readDefaults(defaults, `plugins.workspaces.${slug}`, config, plugins),
      ]),
    ),
  }
  defaultsByConfig.set(config, read)
  return read
}

function readDefaults(
  { defaults = [], prevent_overrides = [] }: PluginDefaults,
  at: string,
  config: Config,
  plugins: Plugin[],
): ReadDefaults | null {
  const options: Options = {}
  for (const [i, entry] of defaults.entries())
    options[entry.id] = readEntry(entry, `${at}.defaults.${i}`, config, plugins)
  const locked = prevent_overrides.map((id, i) => {
    if (id in options) return [id, options[id]]
    throw invalid(`${at}.prevent_overrides.${i}: expected a plugin of the defaults, found ${id}`)
  })
  return defaults.length > 0 ? { options, locked: Object.fromEntries(locked) } : null
}

function readEntry(
  entry: { id: string; enabled?: unknown },
  at: string,
  config: Config,
  plugins: Plugin[],
): unknown {
  const plugin = plugins.find(({ id }) => id === entry.id)
  const names = plugins.map(({ id }) => id).join(', ')
  if (!plugin) throw invalid(`${at}.id: expected one of ${names}, found ${entry.id}`)
  const issue = plugin.schema && findSchemaIssue(plugin.schema, entry)
  if (issue) throw invalid(describeIssue(issue, `${at}.${issue.path}`))
  if (entry.enabled === false) return null
  try {
    return plugin.readOptions(entry, at, config)
  } catch (thrown) {
    throw GatewayError.from(thrown).with({ metadata: {} })
  }
}
