import { rmSync } from 'node:fs'

const OUTFILE = 'dist/gateway'

/**
 * One executable with everything in it. It reads neither `.env` nor `bunfig.toml` of the directory it is started in: what
 * stands there may be somebody else's. Not minified: Elysia reads its handlers' source text.
 */
const result = await Bun.build({
  // The Worker is a program of its own: the first one listed is the one that starts.
  entrypoints: ['src/cli/main.ts', 'src/core/tokenizers/worker.ts'],
  compile: { outfile: OUTFILE, autoloadDotenv: false, autoloadBunfig: false },
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
