import { rmSync } from 'node:fs'
import { join } from 'node:path'

const OUTFILE = 'dist/gateway'

/** Ink imports React's development tools, which are not installed: a stub stands for them. */
const withoutDevtools: Bun.BunPlugin = {
  name: 'without-devtools',
  setup(build) {
    const path = join(import.meta.dir, 'src/cli/tui/devtools-stub.ts')
    build.onResolve({ filter: /^react-devtools-core$/ }, () => ({ path }))
  },
}

/**
 * Builds one executable that contains everything. It ignores `.env` and `bunfig.toml` of the
 * directory it is started in: those files may belong to another program. Not minified: Elysia reads
 * its handlers' source text.
 */
const result = await Bun.build({
  // Each Worker is a program of its own. The first entry point is the one that starts.
  entrypoints: [
    'src/cli/main.ts',
    'src/core/tokenizers/worker.ts',
    'src/core/documents/worker.ts',
    'src/core/healing/worker.ts',
    'src/core/sandboxes/just-bash/worker.ts',
    'src/core/store/sqlite/inspection/worker.ts',
  ],
  compile: { outfile: OUTFILE, autoloadDotenv: false, autoloadBunfig: false },
  plugins: [withoutDevtools],
  target: 'bun',
  format: 'esm',
  bytecode: true,
  splitting: true,
  minify: false,
  define: { 'process.env.NODE_ENV': '"production"' },
})

rmSync('dist/main.js.map', { force: true })
for (const message of result.logs) process.stderr.write(`${message}\n`)
if (!result.success) process.exit(1)
process.stdout.write(`${OUTFILE}: ${(Bun.file(OUTFILE).size / 1024 / 1024).toFixed(1)} MiB\n`)
