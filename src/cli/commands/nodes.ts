import { offer } from '../fields.ts'
import { defineNoun, defineVerbs } from '../noun.ts'
import { print } from '../output.ts'

const verb = defineVerbs(() => import('../../app/nodes.ts'), {
  args: { id: 'its id, as gateway nodes list shows it' },
})

/** `gateway nodes`: the servers of a database that several machines reach. */
export const createNodesCommand = () =>
  defineNoun('nodes', 'the servers of storage.postgres', [
    verb(
      'list',
      'list the servers of the database, and which of them serves',
      [],
      core => core.listNodes,
    ).printAs({
      ID: ({ id }) => id,
      NAME: ({ name }) => name,
      VERSION: ({ version }) => version,
      STATE: ({ state }) => state,
      CONFIG: ({ config_hash }) => config_hash ?? '',
      TABLES: ({ schema_version }) => schema_version ?? '',
      JOBS: ({ has_jobs }) => (has_jobs ? 'yes' : ''),
      SEEN: ({ seen_at }) => seen_at,
    }),
    verb(
      'drain [id]',
      'have a server take no more calls, finish those that run, and end; that of the data directory by default',
      [],
      core => core.drainNode,
    ).printAs(({ data }) => print(`${data.id} drains: it ends with its last call`)),
    verb(
      'forget <id>',
      'take back what a server has on lease that has ended, and let another follow on it at once',
      [
        offer(
          '--ended',
          'its process has ended for certain: without this, it must have been silent for 90 seconds',
        ),
      ],
      (core, flags) => (gateway, actor, id) =>
        core.forgetNode(gateway, actor, id, { hasEnded: flags.ended === true }),
    ).printAs(({ data }) => print(`Forgot ${data.id}: what it had on lease is free`)),
  ])
