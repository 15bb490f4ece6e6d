import { CUT, fill, fillWorkspace } from '../fields.ts'
import { defineNoun, defineVerbs, printDeleted, withInput } from '../noun.ts'
import { parseNumber } from '../options.ts'
import { print } from '../output.ts'

const verb = defineVerbs(
  async () => ({
    ...(await import('../../network/containers.ts')),
    ...(await import('../../network/containers/schema.ts')),
  }),
  { args: { id: 'its id, as calls name it' } },
)

const WORKSPACE = fillWorkspace('another workspace, by id or slug')

/** `gateway containers`: the homes that commands of models run in. */
export const createContainersCommand = () =>
  defineNoun('containers', 'homes that commands of models run in', [
    verb(
      'list',
      'list the containers, the longest unused first',
      [fillWorkspace('those of one workspace, by id or slug'), CUT],
      core => withInput(core.ContainerQuery, core.listContainers),
    ).printAs({
      CONTAINER: ({ container_id }) => container_id,
      FILES: ({ files }) => files,
      BYTES: ({ bytes }) => bytes,
      'LAST USED': ({ last_used_at }) => last_used_at,
      WORKSPACE: ({ workspace_id }) => workspace_id,
    }),
    verb(
      'kill <id>',
      'end a container: everything in it is killed, and its files are deleted',
      [WORKSPACE],
      core => withInput(core.ContainerQuery, core.killContainer),
    ).printAs(printDeleted),
    verb(
      'prune',
      'end unused containers',
      [
        fill('unused_days', '--unused-days <n>', 'for so many days (30)', { parse: parseNumber }),
        fillWorkspace('those of one workspace, by id or slug'),
      ],
      core => withInput(core.ContainerPrune, core.pruneContainers),
    ).printAs(({ deleted, bytes }) => print(`Ended ${deleted}, which had ${bytes} bytes`)),
  ])
