import type { TSchema } from '@sinclair/typebox'
import type { Json } from '../kernel/json.ts'
import type { Kind, Work } from '../language/work.ts'
import type { AnswerFilter } from './kinds.ts'
import type { Asked } from './plan/choices.ts'
import type { Chosen } from './plan/chosen.ts'
import type { Run, Step } from './run.ts'
import type { InferenceWorld } from './world.ts'

/**
 * A plugin or a server tool: stages of its own in the life of a call that asks for it (wire reference C.4). Every one stands in a
 * written list; a call that names none runs through none.
 */
export interface Plugin<Options = unknown> {
  /** Its name among the `plugins` of a body. */
  id: string
  /** Its entry there, where more is said of it than that it is on. */
  schema?: TSchema
  /** Reads its entry, which stands `at` this path. Throws 400 naming the field. */
  read(entry: Json, at: string): Options
  /** Adds to a call what it asks for, once for each model that may be asked. The call handed in stays as it is. */
  before?(call: Work[Kind]['call'], options: Options): Work[Kind]['call']
  /** Says what is asked next when a step has been answered; null where that was all. */
  around?(
    world: InferenceWorld,
    step: Step,
    options: Options,
  ): Work[Kind]['call'] | null | Promise<Work[Kind]['call'] | null>
  /** Chooses models for a call that names a router: the plugin is called `<router>-router`. */
  choose?(world: InferenceWorld, asked: Asked): Chosen
  /** Changes what the client is given while it passes. What is charged is what the provider gave. */
  after?(run: Run, options: Options): AnswerFilter<Work[Kind]['part']>
}

/** A plugin that a call asks for, and how. */
export interface PluginUse {
  plugin: Plugin
  options: unknown
}

/** The plugins that a call asks for, in the order of the list. */
export function pluginsOf(
  { plugins }: Pick<InferenceWorld, 'plugins'>,
  { plugins: asked }: Work[Kind]['call'],
): PluginUse[] {
  return plugins.flatMap(plugin => {
    const options = asked?.[plugin.id]
    return options == null ? [] : [{ plugin, options }]
  })
}

/** The call with all that the plugins add to it that it asks for. */
export const withPlugins = <K extends Kind>(
  world: Pick<InferenceWorld, 'plugins'>,
  call: Work[K]['call'],
): Work[K]['call'] =>
  pluginsOf(world, call).reduce(
    (asked, { plugin, options }) => plugin.before?.(asked, options) ?? asked,
    call as Work[Kind]['call'],
  )
