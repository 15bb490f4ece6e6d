import { describe, expect, test } from 'bun:test'
import { join, normalize, resolve } from 'node:path'
import manifest from '../package.json' with { type: 'json' }
import { getRoom, ROOMS } from '../scripts/house/rooms.ts'

const ROOT = resolve(import.meta.dir, '..')

/** Who may import what by value. Each line has files and what they must not import. */
const FORBIDDEN: [files: RegExp, imports: RegExp][] = [
  [/^src\/(?!server\/|cli\/|console\/)/, /^src\/(server|cli)\/|^(elysia|commander|ink|react)/],
  // What a browser runs has no more of the gateway than what it tells over the API.
  [/^src\/console\//, /^src\/(?!console\/|cli\/tui\/live\.ts)|^(elysia|commander|ink)/],
  [/^src\/server\//, /^src\/cli\/|^(commander|ink|react)/],
  [/^src\/cli\/(?!commands\/serve\.ts)/, /^src\/server\/|^elysia/],
  [
    /^src\/translation\/protocols\//,
    /^src\/(app|store|network|translation\/dialects|resources\/(keys|workspaces|members))(\.ts|\/)/,
  ],
  [/^(?!src\/store\/sqlite)/, /^bun:sqlite/],
  [/^(?!src\/store\/)/, /^kysely/],
  // What is the same on every engine knows none.
  [/^src\/store\/sql\//, /^src\/store\/(sqlite|postgres)/],
  [
    /^(?!src\/(app\/((gateway|valkey)\.ts|backup|handover\/)|store\/)|src\/cli\/commands\/serve(\.ts|\/takeover\.ts))/,
    /^src\/store\//,
  ],
  [/^src\/cli\/commands\/serve\.ts/, /^src\/store\/(?!sqlite\/lock\.ts)/],
  [/^(?!src\/limits\/(filters|patterns))/, /^(re2js|libphonenumber-js|validator)/],
]

/** Every way to open a connection on this platform. A method called `fetch` is none. */
const CONNECTIONS = new RegExp(
  [
    /(?<![.\w])fetch\((?![^()]*\) \{)/,
    /\bBun\.(connect|udpSocket|S3Client|s3)\b/,
    /new (WebSocket|RedisClient)\(/,
    /'node:(net|tls|https?|http2|dgram|dns)['/]/,
  ]
    .map(({ source }) => source)
    .join('|'),
)

/** A comparison of a dialect with a name, on either side, or a switch on it. */
const DIALECT_COMPARED =
  /dialect\s*[!=]==?|[!=]==?\s*(\S*dialect\b|'(chat|messages|responses)')|switch.*dialect\)/

/** What may appear in one place only, or nowhere. */
const WORDS: [files: RegExp, words: RegExp, why: string][] = [
  [
    /^src\/(?!network\/(egress\.ts|http\/)|app\/handover\/channel\.ts|store\/valkey\.ts|cli\/(status-socket|bench\/(connection|floor|sockets)|commands\/serve\/(offer|takeover))\.ts)/,
    CONNECTIONS,
    'only network/egress.ts and its http asks the world; status-socket.ts and a handover a ' +
      'file’s server; store/valkey.ts its own; the benchmark this machine, with what it compares with',
  ],
  [/^src\//, /\.tee\(\)/, 'tee() lets one reader fill memory for another'],
  [
    /^src\/(?!console\/)/,
    /(?<![.\w/])console\.(?!ts\b)/,
    'only the terminal prints, and through output.ts',
  ],
  [
    /^src\/translation\/protocols\/(?!native\.ts$)/,
    DIALECT_COMPARED,
    'only protocols/native.ts compares dialects',
  ],
]

interface Source {
  path: string
  text: string
}

const sources: Source[] = await Promise.all(
  [...new Bun.Glob('src/**/*.{ts,tsx}').scanSync(ROOT)]
    .filter(path => !path.endsWith('.d.ts'))
    .map(async path => ({ path, text: await Bun.file(join(ROOT, path)).text() })),
)

/** What a file imports in any way: by value, as a type, or in a type. */
const allImportsOf = ({ path, text }: Source): string[] =>
  [
    ...withoutComments(text).matchAll(
      /(?:\bfrom\s*|\bimport\s*\(?\s*|\bmodule\s*)'(\.{1,2}\/[^']+)'/g,
    ),
  ].map(([, to = '']) => normalize(join(path, '..', to)))

/** What a file imports at its beginning: by value, or as a type. */
const listStaticImports = ({ path, text }: Source): string[] =>
  [...withoutComments(text).matchAll(/\bfrom\s*'(\.{1,2}\/[^']+)'/g)].map(([, to = '']) =>
    normalize(join(path, '..', to)),
  )

const upwardIn = (source: Source): string[] =>
  allImportsOf(source).flatMap(to => {
    const [from, into] = [getRoom(source.path), getRoom(to)]
    return ROOMS.indexOf(into) > ROOMS.indexOf(from) ? [`${source.path} imports ${to}`] : []
  })

const transpilers = {
  ts: new Bun.Transpiler({ loader: 'ts' }),
  tsx: new Bun.Transpiler({ loader: 'tsx' }),
}

/** What a file imports by value, statically or dynamically, as a path or a package name. */
const importsOf = ({ path, text }: Source): string[] =>
  transpilers[path.endsWith('x') ? 'tsx' : 'ts']
    .scanImports(text)
    .map(({ path: to }) => (to.startsWith('.') ? normalize(join(path, '..', to)) : to))

const forbiddenIn = (source: Source): string[] =>
  FORBIDDEN.filter(([files]) => files.test(source.path)).flatMap(([, imports]) =>
    importsOf(source)
      .filter(to => imports.test(to))
      .map(to => `${source.path} imports ${to}`),
  )

const wordsIn = ({ path, text }: Source): string[] =>
  WORDS.filter(([files, words]) => files.test(path) && words.test(withoutComments(text))).map(
    ([, , why]) => `${path}: ${why}`,
  )

/**
 * Whether a test holds a wall clock against a most, or goes on after a time whether or not what it
 * waits for has come: a busy machine fails it. Processor time of the thread is no such clock.
 */
function isTimed(text: string): boolean {
  const names = [...text.matchAll(/const (\w+) = (?:performance|Date)\.now\(\) - /g)]
  const compared = ['(?:performance|Date)\\.now\\(\\) - ', ...names.map(([, name]) => `${name}\\)`)]
  return (
    new RegExp(`expect\\((?:${compared.join('|')})[^\\n]*\\.toBeLessThan`).test(text) ||
    /^\s*await Promise\.race\(\[[^\n]*Bun\.sleep\(\d+\)\]\)\n\s*expect\(/m.test(text)
  )
}

const withoutComments = (text: string) =>
  text.replace(/\/\*[\s\S]*?\*\//g, '').replace(/^\s*\/\/.*$/gm, '')

/** The first circle of imports from this file, as a list of files. */
function circleFrom(
  start: string,
  graph: Map<string, string[]>,
  way: string[] = [start],
  seen = new Set<string>(),
): string[] | undefined {
  for (const to of graph.get(way.at(-1) ?? '') ?? []) {
    if (to === start) return [...way, to]
    if (seen.has(to)) continue
    seen.add(to)
    const found = circleFrom(start, graph, [...way, to], seen)
    if (found) return found
  }
  return undefined
}

describe('architecture', () => {
  test('there are source files to check', () => {
    expect(sources.length).toBeGreaterThan(50)
  })

  test('no layer imports what it must not know', () => {
    expect(sources.flatMap(forbiddenIn)).toEqual([])
  })

  test('every package that it imports is installed where no tests are', () => {
    const packages = sources.flatMap(importsOf).flatMap(to => {
      const [scope = '', name = ''] = to.split('/')
      const isOwn = to.startsWith('src/') || /^(bun|node):|^bun$|\.(json|md|sql)$/.test(to)
      return isOwn ? [] : [scope.startsWith('@') ? `${scope}/${name}` : scope]
    })
    const missing = new Set(packages).difference(new Set(Object.keys(manifest.dependencies)))
    expect([...missing]).toEqual([])
    // npm start runs no script of a package but Bun's own.
    expect(Object.keys(manifest.scripts)).not.toContain('install')
    expect(manifest.scripts.setup).toContain('--production')
  })

  test('rooms import downward only, types included', () => {
    const rooms = new Set(sources.map(({ path }) => getRoom(path)))
    expect([...rooms].toSorted()).toEqual(ROOMS.toSorted())
    expect(sources.flatMap(upwardIn)).toEqual([])
  })

  test('a planted type import from above is found, and one from below is not', () => {
    const planted = (text: string) => upwardIn({ path: 'src/limits/ledger.ts', text })
    expect(planted(`import type { Plan } from '../engine/plan.ts'`)).toEqual([
      'src/limits/ledger.ts imports src/engine/plan.ts',
    ])
    expect(planted(`type Plan = import('../engine/plan.ts').Plan`)).toHaveLength(1)
    expect(planted(`export type {\n  Gateway,\n} from '../app/gateway.ts'`)).toHaveLength(1)
    expect(planted(`import type { Key } from '../resources/keys.ts'`)).toEqual([])
  })

  test('only the egress opens connections, and no tee, console or dialect name is used', () => {
    expect(sources.flatMap(wordsIn)).toEqual([])
  })

  test('a planted comparison with a dialect is found, and allowed where it belongs', () => {
    const planted = (text: string, path = 'src/translation/protocols/gemini/request.ts') =>
      wordsIn({ path, text })
    expect(planted(`if (call.dialect === 'chat') return []`)).toHaveLength(1)
    expect(planted(`const own = NATIVE !== block.dialect`)).toHaveLength(1)
    expect(planted(`const isOwn = native == 'messages'`)).toHaveLength(1)
    expect(planted('switch (call.dialect) {')).toHaveLength(1)
    expect(planted(`return { type: 'other', dialect: NATIVE, value }`)).toEqual([])
    expect(planted('dialect === native', 'src/translation/protocols/native.ts')).toEqual([])
  })

  test.each([
    ['by value, late imports included', importsOf],
    ['when it is loaded, types included', listStaticImports],
  ])('no file imports itself through others %s', (_, listImports) => {
    const graph = new Map(sources.map(source => [source.path, listImports(source)]))
    const circles = sources
      .map(({ path }) => circleFrom(path, graph))
      .filter(circle => circle !== undefined && circle[0] === circle.toSorted()[0])
    expect(circles).toEqual([])
  })

  test('resources/keys.ts, planted with an import of the server, is found', () => {
    const planted = {
      path: 'src/resources/keys.ts',
      text: `import { createApp } from '../server/app.ts'\ncreateApp()`,
    }
    expect(forbiddenIn(planted)).toEqual(['src/resources/keys.ts imports src/server/app.ts'])
  })

  test('a planted dynamic import is found too, and a type import is not', () => {
    const late = {
      path: 'src/limits/ledger.ts',
      text: `export const open = async () => await import('bun:sqlite')`,
    }
    const type = {
      path: 'src/limits/ledger.ts',
      text: `import type { Database } from 'bun:sqlite'\nexport const x = (db: Database) => db`,
    }
    expect(forbiddenIn(late)).toEqual(['src/limits/ledger.ts imports bun:sqlite'])
    expect(forbiddenIn(type)).toEqual([])
  })

  test('tests open the database of a data directory by a helper that waits for its locks', async () => {
    const paths = [...new Bun.Glob('test/**/*.{ts,tsx}').scanSync(ROOT)].toSorted()
    const texts = await Promise.all(paths.map(path => Bun.file(join(ROOT, path)).text()))
    const opens = /new Database\([^)]*gateway\.db'/
    expect(opens.test(`new Database(join(data, 'gateway.db'))`)).toBe(true)
    expect(paths.filter((_, index) => opens.test(texts[index] ?? ''))).toEqual([
      'test/architecture.test.ts',
      'test/support/database.ts',
    ])
  })

  test('no test asks a clock of the wall for its verdict', async () => {
    const paths = [...new Bun.Glob('test/**/*.{ts,tsx}').scanSync(ROOT)].toSorted()
    const texts = await Promise.all(paths.map(path => Bun.file(join(ROOT, path)).text()))
    expect(paths.filter((_, index) => isTimed(texts[index] ?? ''))).toEqual([
      'test/architecture.test.ts',
    ])
  })

  test.each([
    ['expect(performance.now() - began).toBeLessThan(250)', true],
    ['const took = Date.now() - began\n expect(took).toBeLessThanOrEqual(9)', true],
    ['await Promise.race([recording, Bun.sleep(500)])\n expect(taken).toEqual([])', true],
    ['expect(readThreadCpu() - began).toBeLessThan(250)', false],
    ['expect(performance.now() - began).toBeGreaterThan(900)', false],
    ['expect(Date.parse(at)).toBeLessThan(9)', false],
  ])('%s asks one: %p', (text, isFound) => {
    expect(isTimed(text)).toBe(isFound)
  })

  test('a planted fetch, tee or console is found, unless it is only mentioned', () => {
    const planted = (text: string) => wordsIn({ path: 'src/engine/infer.ts', text })
    expect(planted('await fetch(url)')).toHaveLength(1)
    expect(planted(`import { connect } from 'node:net'`)).toHaveLength(1)
    expect(planted('await Bun.connect(options)')).toHaveLength(1)
    expect(planted(`import { lookup } from 'node:dns/promises'`)).toHaveLength(1)
    expect(planted('const [a, b] = body.tee()')).toHaveLength(1)
    expect(planted('console.log(1)')).toHaveLength(1)
    expect(planted('// fetch(url) is not for us\nreturn app.fetch(request)')).toEqual([])
  })
})
