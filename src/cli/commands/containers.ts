import { CUT, fill, fillWorkspace, offer } from '../fields.ts'
import { defineNoun, defineVerbs, printDeleted, withInput } from '../noun.ts'
import { actInWorkspace, parseNumber } from '../options.ts'
import { print, printFields } from '../output.ts'

const loadCore = async () => ({
  ...(await import('../../network/containers.ts')),
  ...(await import('../../network/containers/names.ts')),
  ...(await import('../../network/containers/schema.ts')),
})

const ARGS = { id: 'its id, as calls name it', file: 'its path in the container, or its id' }
const verb = defineVerbs(loadCore, { args: ARGS })
/** What is in a container is found in the workspace of the actor. */
const fileVerb = defineVerbs(loadCore, {
  args: ARGS,
  actAs: actInWorkspace,
  lists: { files: 'files in it' },
})

const WORKSPACE = fillWorkspace('another workspace, by id or slug')
const OWN_WORKSPACE = offer('--workspace <id>', 'another workspace, by id or slug')

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
    fileVerb(
      'get <id>',
      'show the record of a container',
      [OWN_WORKSPACE],
      core => core.getContainer,
    ),
    fileVerb(
      'files <id>',
      'list the files of a container, by their paths',
      [
        fill('limit', '--limit <n>', 'how many at most (100)', { parse: parseNumber }),
        fill('after', '--after <id>', 'those that follow this one'),
        OWN_WORKSPACE,
      ],
      core => withInput(core.ContainerFileQuery, core.listContainerFiles),
    ).printAs(
      {
        PATH: ({ path }) => path,
        BYTES: ({ bytes }) => bytes,
        CREATED: ({ created_at }) => new Date(created_at * 1000).toISOString(),
        ID: ({ id }) => id,
      },
      ({ has_more, last_id }) => (has_more ? [`There are more: --after ${last_id}`] : []),
    ),
    fileVerb(
      'promote <id> <file>',
      'copy a file of a container into the files of its workspace',
      [OWN_WORKSPACE],
      core => (gateway, actor, id, file) =>
        core.promoteContainerFile(
          gateway,
          actor,
          id,
          core.readFileId(file) === undefined ? core.buildFileId(file) : file,
        ),
    ).printAs(answer => printFields({ ...answer })),
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
