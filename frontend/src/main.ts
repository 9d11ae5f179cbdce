import { mount } from 'svelte';
import './app.css';
import App from './App.svelte';
import { answers, createChatApi, listModels, tellReach } from './lib/api';
import { Conversation } from './lib/conversation.svelte';
import { Conversations } from './lib/conversations.svelte';
import { browserKey, newId } from './lib/identity';
import { Live } from './lib/live.svelte';
import { chats, Models } from './lib/models.svelte';
import { Reach } from './lib/reach.svelte';
import { Router } from './lib/router.svelte';
import { keepShell } from './lib/shell';

const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));
const reach = new Reach(answers, pause);
tellReach((answered) => reach.heard(answered));
addEventListener('offline', () => reach.heard(false));
const models = new Models(listModels, pause);
void models.all();
const user = browserKey();
// The talk is kept while other pages are shown; its events are listened to while it is shown.
const api = createChatApi(() => models.first(chats));
const live = new Live(api, pause);
const conversation = new Conversation({ api, live, user, newId });
const conversations = new Conversations(api, user, pause);

mount(App, {
  target: document.getElementById('app')!,
  props: { router: new Router(window), reach, models, live, conversation, conversations, user },
});
keepShell();
