/** The processes that the benchmark starts beside itself, by name. */
const PARTS: Record<string, () => Promise<void>> = {
  upstream: async () => (await import('./upstream.ts')).serveUpstream(),
  floor: async () => (await import('./floor.ts')).serveFloor(),
  sockets: async () => (await import('./sockets.ts')).serveSockets(),
  load: async () => (await import('./generator.ts')).serveLoad(),
}

/** Runs one part of the benchmark in this process. Exits with 2 if there is none of that name. */
export async function runPart(name = ''): Promise<void> {
  const run = Object.hasOwn(PARTS, name) ? PARTS[name] : undefined
  if (run) {
    process.stdin.on('end', () => process.exit(0)).resume()
    return run()
  }
  process.stderr.write('gateway: bench-part: only `gateway bench` starts its parts\n')
  process.exitCode = 2
}
