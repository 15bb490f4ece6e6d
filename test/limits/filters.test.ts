import { expect, test } from 'bun:test'
import { join, normalize, resolve } from 'node:path'

const ROOT = resolve(import.meta.dir, '../..')
const transpiler = new Bun.Transpiler({ loader: 'ts' })

/** Returns every file and package that is loaded with this file at start. */
async function loadedWith(start: string): Promise<Set<string>> {
  const loaded = new Set<string>()
  const waiting = [start]
  for (let path = waiting.pop(); path !== undefined; path = waiting.pop()) {
    if (loaded.has(path)) continue
    loaded.add(path)
    if (!path.endsWith('.ts')) continue
    const imports = transpiler.scanImports(await Bun.file(join(ROOT, path)).text())
    for (const { kind, path: to } of imports)
      if (kind === 'import-statement')
        waiting.push(to.startsWith('.') ? normalize(join(path, '..', to)) : to)
  }
  return loaded
}

test('a server without content filters loads neither the engine nor a builtin', async () => {
  const loaded = [
    ...(await loadedWith('src/server/listen.ts')),
    ...(await loadedWith('src/app/gateway.ts')),
  ]
  expect(loaded).toContain('src/engine/infer.ts')
  expect(loaded).toContain('kysely')
  const own = /^src\/limits\/filters\/(?!labels)/
  const packages = /^(re2js|libphonenumber-js|validator)/
  expect(loaded.filter(path => own.test(path) || packages.test(path))).toEqual([])
})
