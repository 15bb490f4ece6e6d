import { readFileSync } from 'node:fs'
import data from '../models.data.json' with { type: 'file' }
import type { CatalogData, ModelRow } from './rows.ts'

/** The built-in models as the data file has them, by slug. */
export interface BuiltInModels {
  rows: Map<string, ModelRow>
  /** Maps each alias to its slug. */
  aliases: Map<string, string>
}

/**
 * Returns a function that reads the data on its first call and keeps it: later the file may be that
 * of another version, while this process still runs.
 */
export function createBuiltInReader(): () => BuiltInModels {
  let builtIn: BuiltInModels | undefined
  return () => {
    builtIn ??= readBuiltIn()
    return builtIn
  }
}

/**
 * Returns whether the data is embedded in the executable, where it cannot change. In a checkout it
 * is a file.
 */
export const isEmbedded = (): boolean => data.startsWith('/$bunfs/')

/**
 * Reads the data. It takes a few milliseconds, so it is deferred until a model is needed. Throws
 * where the file is damaged.
 */
export function readBuiltIn(file: string = data): BuiltInModels {
  try {
    const { models, aliases } = JSON.parse(readFileSync(file, 'utf8')) as CatalogData
    return {
      rows: new Map(models.map(row => [row.id, row])),
      aliases: new Map(Object.entries(aliases)),
    }
  } catch (cause) {
    // For the operator who starts the program. A caller learns that something is wrong, not where.
    throw new Error(`${file}: the built-in catalogue cannot be read`, { cause })
  }
}
