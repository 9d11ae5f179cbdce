import { mount } from 'svelte';
import './app.css';
import App from './App.svelte';
import { createApi } from './lib/api';
import { Conversation } from './lib/conversation.svelte';
import { browserKey, newId } from './lib/identity';
import { Live } from './lib/live.svelte';

const api = createApi();
const live = new Live(api, (ms) => new Promise((resolve) => setTimeout(resolve, ms)));
const conversation = new Conversation({ api, live, user: browserKey(), newId });
live.start();

mount(App, { target: document.getElementById('app')!, props: { live, conversation } });
