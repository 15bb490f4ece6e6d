import type { SourceFile } from './tree.ts'

/** The rooms of the source tree, lower to upper. No room may import one above it. */
export const ROOMS: readonly string[] = [
  ...['base', 'language', 'config', 'resources', 'limits', 'translation', 'network'],
  ...['observability', 'engine', 'extensions', 'store', 'app', 'server', 'cli', 'console'],
]

/** Counts the imports between files that run against the order of the rooms, types included. */
export function countUpwardImports(files: Pick<SourceFile, 'path' | 'imports'>[]): number {
  const isUpward = (from: string, to: string) => getFloor(to) > getFloor(from)
  return files.flatMap(({ path, imports }) => imports.filter(to => isUpward(path, to))).length
}

/** Returns the position of a file's room among the rooms. Throws for a file without a room. */
function getFloor(path: string): number {
  const floor = ROOMS.indexOf(getRoom(path))
  if (floor < 0) throw new Error(`${path} belongs to no room: scripts/house/rooms.ts lists them`)
  return floor
}

/** Returns the room of a source file: the folder below `src`, or the file of its name beside it. */
export const getRoom = (path: string): string => /^src\/([a-z]+)/.exec(path)?.[1] ?? ''
