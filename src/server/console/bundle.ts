import { join } from 'node:path'

/**
 * Builds what the console's page runs and looks like, compressed, by name. The executable has the
 * result instead of this file: `build.ts` puts it there.
 */
export async function readBundle(): Promise<Record<string, Uint8Array<ArrayBuffer>>> {
  const { outputs } = await Bun.build({
    entrypoints: [join(import.meta.dir, '../../console/main.tsx')],
    target: 'browser',
    minify: true,
    define: { 'process.env.NODE_ENV': '"production"' },
  })
  const parts = await Promise.all(
    outputs.map(async output => {
      const name = output.path.replace(/^.*\//, '')
      return [name, Bun.gzipSync(await output.arrayBuffer(), { level: 9 })] as const
    }),
  )
  return Object.fromEntries(parts)
}
