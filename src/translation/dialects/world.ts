import type { TSchema } from '@sinclair/typebox'
import type { Json } from '../../base/json.ts'
import type { Config } from '../../config.ts'
import type { TextDialect } from '../../language/dialect.ts'
import type { ToolReading } from '../../language/server-tools.ts'
import type { CatalogWorld } from '../../resources/catalog-world.ts'

/** What dialects depend on: they look up the presets, providers and plugins that a body names. */
export interface DialectWorld extends CatalogWorld {
  plugins: ReadablePlugin[]
  tools: ReadableTool[]
}

/** A plugin, as far as a body names it (wire reference C.4). */
export interface ReadablePlugin<Options = unknown> {
  /** Its name in the `plugins` of a body. */
  id: string
  /** The schema of its entry there, if it has options. */
  schema?: TSchema
  /**
   * Reads its entry, which is at `path` in the body. Throws 400 naming the field, also for an option
   * that nothing in the config can serve.
   */
  readOptions(entry: Json, path: string, config: Config): Options
}

/** A tool that the gateway runs itself, as far as a body names it (wire reference D.6). */
export interface ReadableTool<Options = unknown> {
  /** Its name after the prefix: `web_search`. */
  name: string
  /** Further names after the prefix under which clients know it. */
  aliases?: string[]
  /**
   * Types without a prefix that mean this tool in the chat API. Their options may stand beside the
   * type instead of in `parameters`.
   */
  shorthands?: string[]
  /**
   * Types without a prefix by which an API means a tool of its providers that this one can stand in
   * for, with their options beside the type.
   */
  nativeTypes?: Partial<Record<TextDialect, RegExp>>
  /** Types without a prefix that mean this tool in every API, with their options beside the type. */
  plainTypes?: string[]
  /** Tells whether an entry of such a type is for the gateway; all of them if absent. */
  claims?(entry: Json): boolean
  /**
   * Reads an entry of a native type, which is as its own providers take it; null where the gateway
   * has nothing to run it with, or no word for what it says.
   */
  readNative?(world: ToolWorld, entry: Json, reading: ToolReading): Options | null
  /** The APIs that have a form for it; absent for all. */
  dialects?: TextDialect[]
  /** The schema of its `parameters` in a body. */
  schema: TSchema
  /**
   * Reads its parameters, which are at `path` in the body: beside its type if that has no prefix.
   * `reading` reads tools in them. Throws 400 naming the field.
   */
  readOptions(parameters: Json, path: string, reading?: ToolReading): Options
  /**
   * Returns what tells two of it in one call apart: a label. Absent if a call may have only one.
   */
  identify?(options: Options): string
}

/** What decides whether the gateway can stand in for a provider's tool. */
export interface ToolWorld {
  config: Config
}
