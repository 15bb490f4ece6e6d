import type { TSchema } from '@sinclair/typebox'
import { invalid } from '../errors.ts'
import type { Json } from '../kernel/json.ts'
import type { Kind, Work } from '../language/work.ts'
import type { AnswerFilter } from './kinds.ts'
import type { RouterInputs } from './plan/router-candidates.ts'
import type { RouterDecision } from './plan/router-decision.ts'
import type { Run, Step } from './run.ts'
import type { InferenceWorld } from './world.ts'

/**
 * A plugin or a server tool: stages of its own in the life of a call that asks for it (wire
 * reference C.4). All of them are in a written list. A call that names none runs through none.
 */
export interface Plugin<Options = unknown> {
  /** Its name in the `plugins` of a body. */
  id: string
  /** The schema of its entry there, if it has options. */
  schema?: TSchema
  /** Reads its entry, which is at `path` in the body. Throws 400 naming the field. */
  readOptions(entry: Json, path: string): Options
  /**
   * Returns the call with what the plugin adds, once per model. Does not change the call that it
   * gets, and returns its own result unchanged: a call of a later step has passed through it.
   */
  before?(call: Work[Kind]['call'], options: Options): Work[Kind]['call']
  /** Returns the call of the next step once a step is answered; null if there is none. */
  around?(
    world: InferenceWorld,
    step: Step,
    options: Options,
  ): Work[Kind]['call'] | null | Promise<Work[Kind]['call'] | null>
  /** Picks models for a call that names a router: the plugin is called `<router>-router`. */
  decide?(world: InferenceWorld, inputs: RouterInputs): RouterDecision
  /**
   * Returns a filter that changes what the client gets. The charge is for what the provider sent.
   */
  after?(run: Run, options: Options): AnswerFilter<Work[Kind]['part']>
}

/** A plugin that a call asks for, and its options. */
export interface PluginUse {
  plugin: Plugin
  options: unknown
}

/** Lists the plugins that a call asks for, in the order of the list. */
export function listPluginUses(
  { plugins }: Pick<InferenceWorld, 'plugins'>,
  { plugins: requested }: Work[Kind]['call'],
): PluginUse[] {
  return plugins.flatMap(plugin => {
    const options = requested?.[plugin.id]
    return options == null ? [] : [{ plugin, options }]
  })
}

/** Returns the call with what its plugins add. */
export const applyPlugins = <K extends Kind>(
  world: Pick<InferenceWorld, 'plugins'>,
  call: Work[K]['call'],
): Work[K]['call'] =>
  listPluginUses(world, call).reduce(
    (extended, { plugin, options }) => plugin.before?.(extended, options) ?? extended,
    call as Work[Kind]['call'],
  )

/** Throws 400 for an option that a plugin does not have. `at` is its entry's path in the body. */
export function requireOptions(entry: Json, at: string, names: string[]): void {
  const known = ['id', 'enabled', ...names]
  if (Object.keys(entry).every(name => known.includes(name))) return
  throw invalid(`${at}: expected no options but ${known.join(', ')}`, at)
}
