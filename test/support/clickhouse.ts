import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** A ClickHouse server with a user `writer` whose password is `Paßwort: x`. */
export interface ClickHouse {
  url: string
  close(): Promise<void>
}

/** The program of the server; null where it is not installed. */
export const CLICKHOUSE_PROGRAM =
  Bun.which('clickhouse-server', { PATH: `${process.env.PATH}:/usr/sbin:/usr/bin` }) ?? null

/** Starts a server on loopback, and waits until it answers. Throws with its log if it ends. */
export async function startClickHouse(): Promise<ClickHouse> {
  if (CLICKHOUSE_PROGRAM === null) throw new Error('clickhouse-server is not installed')
  const home = mkdtempSync(join(tmpdir(), 'gateway-clickhouse-'))
  const [http, tcp] = [await findFreePort(), await findFreePort()]
  writeFileSync(join(home, 'config.xml'), renderConfig(home, http, tcp))
  writeFileSync(join(home, 'users.xml'), USERS)
  const child = Bun.spawn([CLICKHOUSE_PROGRAM, `--config-file=${join(home, 'config.xml')}`], {
    cwd: home,
    stdin: 'ignore',
    stdout: 'ignore',
    stderr: Bun.file(join(home, 'stderr')),
  })
  const url = `http://127.0.0.1:${http}`
  const close = async () => {
    child.kill('SIGKILL')
    await child.exited
    rmSync(home, { recursive: true, force: true })
  }
  while (!(await isUp(url))) {
    if (child.exitCode === null) {
      await Bun.sleep(20)
      continue
    }
    const text = await Bun.file(join(home, 'stderr')).text()
    await close()
    throw new Error(`clickhouse-server ended: ${text.slice(-1_000)}`)
  }
  return { url, close }
}

const isUp = (url: string): Promise<boolean> =>
  fetch(`${url}/ping`).then(
    response => response.ok,
    () => false,
  )

function findFreePort(): Promise<number> {
  const server = createServer()
  return new Promise(resolve =>
    server.listen(0, '127.0.0.1', () => {
      const { port } = server.address() as { port: number }
      server.close(() => resolve(port))
    }),
  )
}

const renderConfig = (home: string, http: number, tcp: number): string => `<yandex>
<logger><level>error</level><log>${home}/log</log><errorlog>${home}/errors</errorlog></logger>
<http_port>${http}</http_port><tcp_port>${tcp}</tcp_port><listen_host>127.0.0.1</listen_host>
<path>${home}/data/</path><tmp_path>${home}/tmp/</tmp_path>
<users_config>${home}/users.xml</users_config><mark_cache_size>1048576</mark_cache_size>
<default_profile>default</default_profile><default_database>default</default_database>
</yandex>
`

const USERS = `<yandex>
<profiles><default></default></profiles>
<quotas><default></default></quotas>
<users><writer>
<password>Paßwort: x</password><networks><ip>127.0.0.1</ip></networks>
<profile>default</profile><quota>default</quota>
</writer></users>
</yandex>
`
