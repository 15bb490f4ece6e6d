import type { ModelConfig } from '../../config.ts'
import type { Model, Models } from '../models.ts'
import type { BuiltInModels } from './built-in.ts'
import { buildFreeVariant, FREE_VARIANT } from './free.ts'
import { indexPlainNames, listMeant, listNearestModels, type PlainNames } from './names.ts'
import { type ModelContext, openModel } from './open.ts'

/**
 * The models of the config over the built-in ones. Each is opened on first use, and the built-in
 * data when the first model is.
 */
export class LazyModels implements Models {
  readonly #configured: Map<string, ModelConfig>
  readonly #read: () => BuiltInModels
  readonly #context: ModelContext
  readonly #opened = new Map<string, Model>()
  #builtIn: BuiltInModels | undefined
  #plainNames: PlainNames | undefined

  constructor(
    configured: Map<string, ModelConfig>,
    read: () => BuiltInModels,
    context: ModelContext,
  ) {
    this.#configured = configured
    this.#read = read
    this.#context = context
  }

  get(slug: string): Model | undefined {
    return this.#opened.get(slug) ?? this.#open(slug)
  }

  has(slug: string): boolean {
    return this.get(slug) !== undefined
  }

  /** Yields the config's models in their order, then the built-in ones by slug. */
  *values(): Iterable<Model> {
    for (const slug of this.#slugs()) {
      const model = this.get(slug)
      if (model) yield model
    }
  }

  *listServedBy(provider: string): Iterable<Model> {
    const { rows } = this.#data()
    const isThere = (one: { provider: string }) => one.provider === provider
    for (const slug of this.#slugs()) {
      const { endpoints = [] } = this.#configured.get(slug) ?? {}
      if (!endpoints.some(isThere) && !rows.get(slug)?.endpoints.some(isThere)) continue
      const model = this.get(slug)
      if (model) yield model
    }
  }

  get size(): number {
    return this.#slugs().size
  }

  #slugs(): Set<string> {
    return new Set([...this.#configured.keys(), ...this.#data().rows.keys()])
  }

  #data(): BuiltInModels {
    this.#builtIn ??= this.#read()
    return this.#builtIn
  }

  #open(slug: string): Model | undefined {
    const { rows, aliases } = this.#data()
    const id = this.#configured.has(slug) || rows.has(slug) ? slug : aliases.get(slug)
    if (id === undefined) return this.#openFree(slug) ?? this.#openPlain(slug)
    const model =
      this.#opened.get(id) ?? openModel(id, this.#configured.get(id), rows.get(id), this.#context)
    this.#opened.set(id, model).set(slug, model)
    return model
  }

  listMeant(name: string): string[] {
    return name.includes('/') ? [] : listMeant(this.#names(), name)
  }

  listNearest(slug: string): string[] {
    return listNearestModels(this.#names(), slug)
  }

  #names(): PlainNames {
    this.#plainNames ??= indexPlainNames(this.#configured, this.#data())
    return this.#plainNames
  }

  #openPlain(name: string): Model | undefined {
    const [id, ...others] = this.listMeant(name)
    const model = id === undefined || others.length > 0 ? undefined : this.get(id)
    if (model) this.#opened.set(name, model)
    return model
  }

  // A model with that slug of its own takes precedence over a free variant.
  #openFree(slug: string): Model | undefined {
    const base = slug.endsWith(FREE_VARIANT) ? slug.slice(0, -FREE_VARIANT.length) : ''
    const model = base === '' || base.includes(':') ? undefined : this.get(base)
    const free = model && buildFreeVariant(model)
    if (free) this.#opened.set(free.id, free).set(slug, free)
    return free
  }
}
