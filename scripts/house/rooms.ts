import type { SourceFile } from './tree.ts'

/** The rooms of the source tree, lower to upper. No room may import one above it. */
const ROOMS = [
  ...['base', 'language', 'config', 'resources', 'limits', 'translation', 'network'],
  ...['observability', 'engine', 'extensions', 'store', 'app', 'server', 'cli'],
] as const

type Room = (typeof ROOMS)[number]

/** The room that today's folders belong to. The first pattern that matches a path decides. */
const FOLDERS: [room: Room, folders: RegExp][] = [
  ['cli', /^src\/cli\//],
  ['server', /^src\/server\//],
  ['config', /^src\/core\/config/],
  ['app', /^src\/core\/(gateway|reconfigure|backup.*|handover.*|doctor.*)(\.ts|\/)?/],
  ['store', /^src\/core\/store/],
  ['extensions', /^src\/core\/(plugins|tools|healing|documents|batches)/],
  [
    'extensions',
    /^src\/core\/inference\/(server-tool|telling|videos|media|stored-files|cached|enrich|prepare|plugin|plugin-defaults|filters|image-models|explain|activity|count-tokens|attempt\/(hedge|shares|leftover)|kinds\/rewrite)/,
  ],
  ['extensions', /^src\/core\/policy\/(filters|patterns)/],
  ['observability', /^src\/core\/(telemetry|destinations)/],
  ['engine', /^src\/core\/inference/],
  ['network', /^src\/core\/(upstream|sandboxes|containers)/],
  ['limits', /^src\/core\/(ledger|policy)/],
  ['translation', /^src\/core\/(dialects|protocols|tokenizers)/],
  ['resources', /^src\/core\/(identity|catalog|files)/],
  ['language', /^src\/core\/language/],
  ['base', /^src\/core\/(kernel|errors|events)/],
]

/** Counts the imports between files that run against the order of the rooms, types included. */
export function countUpwardImports(files: Pick<SourceFile, 'path' | 'imports'>[]): number {
  const isUpward = (from: string, to: string) => getFloor(to) > getFloor(from)
  return files.flatMap(({ path, imports }) => imports.filter(to => isUpward(path, to))).length
}

/** Returns the position of a file's room among the rooms. Throws for a file without a room. */
function getFloor(path: string): number {
  const [room] = FOLDERS.find(([, folders]) => folders.test(path)) ?? []
  if (!room) throw new Error(`${path} belongs to no room: scripts/house/rooms.ts lists them`)
  return ROOMS.indexOf(room)
}
