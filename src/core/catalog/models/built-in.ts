import { readFileSync } from 'node:fs'
import data from '../models.data.json' with { type: 'file' }
import type { CatalogData, ModelRow } from './rows.ts'

/** The built-in catalogue as its data has it, by slug. */
export interface BuiltIn {
  rows: Map<string, ModelRow>
  /** Another name → the slug. */
  aliases: Map<string, string>
}

/** Reads the data when it is first asked for: what stands in the file may be another version's by then, while this one runs. */
export function readingOnce(): () => BuiltIn {
  let builtIn: BuiltIn | undefined
  return () => {
    builtIn ??= readBuiltIn()
    return builtIn
  }
}

/** Whether the data is in the program itself, where nothing can happen to it. In a checkout it is a file. */
export const isInProgram = (): boolean => data.startsWith('/$bunfs/')

/** Reads the data: a few milliseconds, so nobody does before a model is asked for. Throws where it is not what it was. */
export function readBuiltIn(file: string = data): BuiltIn {
  try {
    const { models, aliases } = JSON.parse(readFileSync(file, 'utf8')) as CatalogData
    return {
      rows: new Map(models.map(row => [row.id, row])),
      aliases: new Map(Object.entries(aliases)),
    }
  } catch (cause) {
    // For who starts it: a caller hears that something is wrong, and not where.
    throw new Error(`${file}: the built-in catalogue cannot be read`, { cause })
  }
}
