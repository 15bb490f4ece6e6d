import { type GatewayError, invalid } from '../base/errors.ts'
import type { PeekedSequence } from '../base/iterate.ts'
import type { Json } from '../base/json.ts'
import type { AnswerFilter } from '../engine/kind.ts'
import type { PipelineStage, RouterDecision, RouterInputs } from '../engine/plan/candidates.ts'
import { sortByNumber } from '../engine/plan/order.ts'
import { getRouterPluginId } from '../engine/plan/router-decision.ts'
import type { Extension, Run, Step } from '../engine/run.ts'
import type { TextCall } from '../language/call.ts'
import type { AnswerPart, Kind, Work } from '../language/work.ts'
import type { Model } from '../resources/models/catalog.ts'
import type { ReadablePlugin } from '../translation/dialects/world.ts'
import { addFilter } from './filters.ts'
import type { ExtensionWorld } from './world.ts'

/**
 * A plugin or a server tool: stages of its own in the life of a call that asks for it (wire
 * reference C.4). All of them are in a written list. A call that names none runs through none.
 */
export interface Plugin<Options = unknown> extends ReadablePlugin<Options> {
  /**
   * Returns the options for a call that does not mention it but needs it; undefined for others. Only
   * asked of a call with a file, with search options, or with a model that the catalogue has not or
   * that has a variant.
   */
  imply?(world: PluginWorld, call: Work[Kind]['call']): Options | undefined
  /**
   * Returns the call with what has to be fetched or read for it, before filters see it. Throws what
   * stops the call. A dry run fetches nothing.
   */
  prepare?(
    world: PluginWorld,
    run: Run,
    options: Options,
  ): Work[Kind]['call'] | Promise<Work[Kind]['call']>
  /** Looks at the call as filters leave it, and returns why it is blocked; null if it is not. */
  review?(world: PluginWorld, run: Run, options: Options): Promise<GatewayError | null>
  /**
   * Returns what others know that the call should have beside its last message of the user; null if
   * nothing. It may cost something. A dry run sends no request. Throws what stops the call.
   */
  enrich?(
    world: PluginWorld,
    run: Run,
    call: TextCall,
    options: Options,
  ): Promise<Enrichment | null>
  /**
   * Returns the call with what the plugin adds, once per model. Does not change the call that it
   * gets, and returns its own result unchanged: a call of a later step has passed through it.
   */
  before?(call: Work[Kind]['call'], options: Options): Work[Kind]['call']
  /**
   * Returns the call as this model gets it, and what is told of that. `options` are undefined if the
   * call does not mention the plugin. Returns the call itself if nothing changes.
   */
  fit?(call: Work[Kind]['call'], model: Model, options: Options | undefined): FittedCall
  /** Whether calls to this model are fitted that do not mention the plugin; none are without it. */
  fitsUnasked?(model: Model): boolean
  /**
   * Returns a number by which the models of a call are sorted, the smallest first. Models with the
   * same number keep their order. `options` are undefined if the call does not mention the plugin.
   */
  rank?(call: Work[Kind]['call'], model: Model, options: Options | undefined): number
  /** Returns the call of the next step once a step is answered; null if there is none. */
  around?(
    world: PluginWorld,
    step: Step,
    options: Options,
  ): Work[Kind]['call'] | null | Promise<Work[Kind]['call'] | null>
  /** Picks models for a call that names a router: the plugin is called `<router>-router`. */
  decide?(world: PluginWorld, inputs: RouterInputs): RouterDecision
  /**
   * Returns a filter that changes what the client gets; null if nothing is changed. The charge is
   * for what the provider sent.
   */
  after?(world: PluginWorld, run: Run, options: Options): AnswerFilter<Work[Kind]['part']> | null
}

/** What a plugin adds to the last message of the user. */
export interface Enrichment {
  /** What the model is told to do with the content: words of the gateway, or of the caller. */
  instruction: string
  /** Words of others, marked as data. */
  content: string
}

/** A call as a model gets it, and what is told of how it was changed. */
export interface FittedCall<K extends Kind = Kind> {
  call: Work[K]['call']
  stage?: PipelineStage
}

/** What has the list of plugins. */
export interface PluginWorld extends ExtensionWorld {
  /** The plugins that calls may ask for. */
  plugins: Plugin[]
}

/** A plugin that a call asks for, and its options. */
export interface PluginUse {
  plugin: Plugin
  options: unknown
}

/** Lists the plugins that a call asks for, in the order of the list. */
export function listPluginUses(
  { plugins }: PluginWorld,
  { plugins: requested }: Work[Kind]['call'],
): PluginUse[] {
  return plugins.flatMap(plugin => {
    const options = requested?.[plugin.id]
    return options == null ? [] : [{ plugin, options }]
  })
}

/** Returns the call with what its plugins add. */
export const applyPlugins = <K extends Kind>(
  world: PluginWorld,
  call: Work[K]['call'],
): Work[K]['call'] =>
  listPluginUses(world, call).reduce(
    (extended, { plugin, options }) => plugin.before?.(extended, options) ?? extended,
    call as Work[Kind]['call'],
  )

/**
 * Returns the call as this model gets it, and what is told of that. Most calls are not changed, and
 * then nothing is looked at but the model.
 */
export function fitToModel<K extends Kind>(
  { plugins }: PluginWorld,
  call: Work[K]['call'],
  model: Model,
): { call: Work[K]['call']; stages: PipelineStage[] } {
  const unasked = listUnasked(plugins, model)
  if (!call.plugins && unasked.length === 0) return { call, stages: NO_STAGES }
  let fitted: Work[Kind]['call'] = call
  let stages = NO_STAGES
  for (const plugin of plugins) {
    if (!plugin.fit) continue
    const options = call.plugins?.[plugin.id]
    if (options === null || (options === undefined && !unasked.includes(plugin))) continue
    const { call: changed, stage } = plugin.fit(fitted, model, options)
    fitted = changed
    if (stage) stages = [...stages, stage]
  }
  return { call: fitted, stages }
}

const NO_STAGES: PipelineStage[] = []

/** Lists the plugins that fit calls to a model unasked: of most models none. Models do not change. */
function listUnasked(plugins: Plugin[], model: Model): Plugin[] {
  const known = unaskedByModel.get(model)
  if (known?.plugins === plugins) return known.unasked
  const unasked = plugins.filter(({ fitsUnasked }) => fitsUnasked?.(model))
  unaskedByModel.set(model, { plugins, unasked })
  return unasked
}

const unaskedByModel = new WeakMap<Model, { plugins: Plugin[]; unasked: Plugin[] }>()

/** Sorts the models of a call as plugins ask for. Most calls have one model, and nothing to sort. */
export function rankModels<Entry extends { model: Model }>(
  { plugins }: PluginWorld,
  call: Work[Kind]['call'],
  models: Entry[],
): Entry[] {
  if (models.length < 2) return models
  let sorted = models
  for (const { id, rank } of plugins) {
    const options = call.plugins?.[id]
    if (rank && options !== null)
      sorted = sortByNumber(sorted, ({ model }) => rank(call, model, options))
  }
  return sorted
}

/** What plugins do while models are found. */
export const chooser: NonNullable<Extension['choose']> = {
  decide: (world: PluginWorld, router, inputs) =>
    world.plugins.find(({ id }) => id === getRouterPluginId(router))?.decide?.(world, inputs),
  rank: rankModels,
  extend: applyPlugins,
  fit: fitToModel,
  fitsUnasked: ({ plugins }: PluginWorld, model) => listUnasked(plugins, model).length > 0,
}

/** Returns the answer as the plugins of a call leave it; null if none looks at it. */
export function filterByPlugins<K extends Kind>(
  world: PluginWorld,
  run: Run<K>,
  answer: PeekedSequence<AnswerPart<K>[]>,
  read: (batch: AnswerPart<K>[]) => void,
): PeekedSequence<AnswerPart<K>[]> | null {
  let filtered: PeekedSequence<AnswerPart<K>[]> | null = null
  for (const { plugin, options } of listPluginUses(world, run.call)) {
    const filter = plugin.after?.(world, run, options) as AnswerFilter<AnswerPart<K>> | null
    if (filter) filtered = addFilter(run, filter, filtered ?? answer, filtered ? ignore : read)
  }
  return filtered
}

const ignore = () => undefined

/** Throws 400 for an option that a plugin does not have. `at` is its entry's path in the body. */
export function requireOptions(entry: Json, at: string, names: string[]): void {
  const known = ['id', 'enabled', ...names]
  if (Object.keys(entry).every(name => known.includes(name))) return
  throw invalid(`${at}: expected no options but ${known.join(', ')}`, at)
}
